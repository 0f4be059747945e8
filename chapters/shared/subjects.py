"""What the recordings measure: MiniGPT, GPT-2 124M, and a GPT-2 block that nobody here wrote.

An instrument takes any module and knows no model. A recording is a command line, so it must name its subjects itself:
this is the one place in the package that reaches for mini_model and for transformers, and only when it is called.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

    from mini_model.model import GPTConfig, MiniGPT


def minigpt(name: str = "mini", device: str = "cpu", vocabulary: int | None = None, **sizes: int) -> MiniGPT:
    """The book's own model, "mini" or "gpt2-124m", with seeded random weights. ValueError lists the names.

    ``vocabulary`` and other ``sizes`` of `GPTConfig` take the place of the model's own.
    """
    from mini_model.model import config

    given: dict[str, Any] = sizes | ({"vocabulary": vocabulary} if vocabulary else {})
    return of_shape(replace(config(name), **given), device)


GPT2_PADDED = 50_304
"""The next multiple of 64 of GPT-2's vocabulary, 50,257: what people train and serve, since an odd matrix has slow
kernels (chapter 06 shows it)."""


def gpt2(device: str = "cpu", vocabulary: int = GPT2_PADDED) -> MiniGPT:
    """GPT-2 124M as the comparisons of the book take it, its vocabulary padded, with seeded random weights."""
    return minigpt("gpt2-124m", device, vocabulary)


def deep_gpt(
    layers: int, dim: int, heads: int, context: int, device: str = "cpu", vocabulary: int | None = None
) -> MiniGPT:
    """MiniGPT of any depth and width, with the book's vocabulary unless one is given, and seeded random weights."""
    from mini_model.model import MINI

    words = vocabulary or MINI.vocabulary
    return of_shape(replace(MINI, layers=layers, dim=dim, heads=heads, context=context, vocabulary=words), device)


def of_shape(shape: GPTConfig, device: str = "cpu") -> MiniGPT:
    """MiniGPT of a shape, with seeded random weights."""
    from mini_model.model import MiniGPT

    torch.manual_seed(0)
    with torch.device(device):
        return MiniGPT(shape)


def parallel_step(
    model: MiniGPT, pattern: str, mesh: dict[str, int], **options: Any
) -> tuple[Callable[[Tensor, Tensor], Tensor], list[dict[str, Any]]]:
    """The model on the ranks that run, by a pattern of mini_model.parallel: its training step, which takes tokens and
    targets of the whole batch, and its parameters in groups for an optimizer. The options are those of `parallelize`.

    "one device" leaves the model whole.
    """
    from mini_model import parallel

    if pattern == "one device":
        for block in model.blocks if options.get("mode") else ():
            block.compile(mode=options["mode"], fullgraph=True)
        return _step_alone(model, options["dtype"]), [{"params": list(model.parameters())}]
    made = parallel.parallelize(model, pattern, parallel.make_mesh(pattern, **mesh), **options)
    return functools.partial(made.step, average=False), made.parameter_groups()


def headwise(model: MiniGPT) -> MiniGPT:
    """The same model with the rows of q, k and v in the order of the heads, so that a slice of them is whole heads."""
    from mini_model.parallel.parts import HeadwiseAttention

    for block in list[Any](model.blocks):
        block.attention = HeadwiseAttention(block.attention)
    return model


def styled(model: MiniGPT, mesh: DeviceMesh, sequence: bool = False) -> MiniGPT:
    """The model spread over a mesh's one axis by torch's tensor-parallel styles, as mini_model.parallel has them.

    ``sequence``: by those that slice the positions between the matmuls, too.
    """
    from mini_model import parallel

    return parallel.tensor_parallel(model, mesh, sequence)


def _step_alone(model: MiniGPT, dtype: torch.dtype) -> Callable[[Tensor, Tensor], Tensor]:
    def step(tokens: Tensor, targets: Tensor) -> Tensor:
        model.zero_grad()
        with torch.autocast(tokens.device.type, dtype):
            loss = model(tokens, targets)
        loss.backward()
        return loss.detach()

    return step


class ByHand(nn.Module):
    """An MLP whose norm and GELU are written out, as they are in many repositories."""

    def __init__(self, dim: int = 64) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """The mean squared distance from ``y``, of the same shape as ``x``."""
        x = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)
        h = self.up(x)
        h = 0.5 * h * (1 + torch.tanh(0.79788 * (h + 0.044715 * h**3)))
        return F.mse_loss(self.down(h), y)


class ResidualMLP(nn.Module):
    """The half of a transformer's layer that needs no attention: norm, four times wider, GELU, back, added."""

    def __init__(self, dim: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.up = nn.Linear(dim, 4 * dim)
        self.down = nn.Linear(4 * dim, dim)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        y = self.up(self.norm(x))
        y = F.gelu(y, approximate="tanh")
        return x + self.dropout(self.down(y))


class DeepMLP(nn.Module):
    """Many such blocks one after the other, and a loss: quick to trace, however deep. float32 [rows, dim] in."""

    def __init__(self, layers: int, dim: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(ResidualMLP(dim, dropout) for _ in range(layers))

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return x.square().mean()


def deep_mlp(layers: int = 24, dim: int = 32, dropout: float = 0.0) -> DeepMLP:
    """A DeepMLP with seeded random weights, in training mode."""
    torch.manual_seed(0)
    return DeepMLP(layers, dim, dropout)


def rows(count: int = 256, dim: int = 32) -> Tensor:
    """Random input for it, float32 [count, dim]; always the same."""
    return torch.randn(count, dim, generator=torch.Generator().manual_seed(0))


def tokens(model: MiniGPT, batch: int, length: int | None = None) -> tuple[Tensor, Tensor]:
    """Random tokens and targets, int64 [batch, length], on the model's device; by default as long as its context."""
    device = next(model.parameters()).device
    shape = batch, (length or model.config.context) + 1
    drawn = torch.randint(model.config.vocabulary, shape, generator=torch.Generator().manual_seed(0)).to(device)
    return drawn[:, :-1].contiguous(), drawn[:, 1:].contiguous()


def training_step(model: nn.Module, *given: Tensor, autocast: bool = True) -> Callable[[Callable], Tensor]:
    """``step(called)``: forward by ``called``, the model or what was compiled of it, backward and a fused AdamW.

    It returns the loss. ``autocast``: to bfloat16.
    """
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def step(called: Callable[..., Tensor]) -> Tensor:
        with torch.autocast(given[0].device.type, torch.bfloat16, enabled=autocast):
            loss = called(*given)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    return step


def inference_step(*given: Tensor) -> Callable[[Callable], Tensor]:
    """``step(called)`` calls it without gradients."""

    def step(called: Callable[..., Tensor]) -> Tensor:
        with torch.no_grad():
            return called(*given)

    return step


def sentences(model: MiniGPT, batch: int, step: int = 0) -> tuple[Tensor, Tensor]:
    """Tokens and targets of the book's grammar, int64 [batch, context], on the model's device; others at each step.

    The grammar has 600 words, whatever the model's vocabulary.
    """
    from mini_model.grammar import GRAMMAR

    device = next(model.parameters()).device
    drawn = torch.from_numpy(GRAMMAR.windows(batch, model.config.context, seed=[0, 0, step])).to(device)
    return drawn[:, :-1].contiguous(), drawn[:, 1:].contiguous()


def gpt2_block(device: str = "cpu", dim: int = 768) -> nn.Module:
    """One block of GPT-2 from the transformers library, without dropout; float32 [batch, length, dim] in.

    Raises ValueError for a width that is not of whole heads, and ModuleNotFoundError, naming transformers, where it is
    not installed.
    """
    if not isinstance(dim, int) or isinstance(dim, bool) or dim < 64 or dim % 64:
        raise ValueError(f"dim={dim!r}: GPT-2's heads are 64 wide, so dim is a multiple of 64, such as 64, 128 or 768")
    from transformers import GPT2Config
    from transformers.models.gpt2.modeling_gpt2 import GPT2Block

    torch.manual_seed(0)
    settings = GPT2Config(n_embd=dim, n_head=dim // 64, attn_pdrop=0.0, resid_pdrop=0.0, embd_pdrop=0.0)
    settings._attn_implementation = "sdpa"
    with torch.device(device):
        return GPT2Block(settings, layer_idx=0)


def resnet(device: str = "cpu") -> nn.Module:
    """A small ResNet from the transformers library, in training mode; float32 [batch, 3, height, width] in.

    One block of 32 channels, ten classes, seeded random weights. Its output has ``logits``.
    Raises ModuleNotFoundError, naming transformers, where it is not installed.
    """
    from transformers import ResNetConfig, ResNetForImageClassification

    torch.manual_seed(0)
    sizes: dict[str, Any] = {"embedding_size": 16, "hidden_sizes": [32], "depths": [1], "layer_type": "basic"}
    sizes["num_labels"] = 10
    with torch.device(device):
        return ResNetForImageClassification(ResNetConfig(**sizes)).train()


def with_cache(model: MiniGPT, rows: int) -> nn.Module:
    """The model as it generates: with room for the keys and values of so many sequences."""
    from mini_model.generation import CachedGPT

    return CachedGPT(model.eval(), rows)


def attention_masks(length: int, window: int, document: int, device: str = "cpu") -> dict[str, Callable[..., Tensor]]:
    """FlexAttention's mask functions by name: causal, a window, documents of so many tokens in the mean, seeded."""
    from mini_model.flex import causal, same_document, sliding_window

    ends = torch.rand(1, length, generator=torch.Generator().manual_seed(0)) < 1 / document
    documents = same_document(ends.cumsum(1).to(device))
    return {"causal": causal, "window": sliding_window(window), "documents": documents}


def capstone_model(vocabulary: int, device: str = "cpu", seed: int = 0) -> MiniGPT:
    """GPT-2 124M with that vocabulary and seeded random weights; on a CPU a small model of its form."""
    from mini_model.model import GPT2_124M, GPTConfig, MiniGPT

    small = GPTConfig(vocabulary=640, context=16, dim=96, layers=2, heads=2, tied_head=True)
    torch.manual_seed(seed)
    with torch.device(device):
        return MiniGPT(small if device == "cpu" else replace(GPT2_124M, vocabulary=vocabulary))


def capstone_rungs() -> dict[str, Any]:
    """The rungs of the capstone's ladder by name, see capstone.rungs."""
    from capstone.rungs import RUNGS

    return RUNGS


def capstone_stream(model: MiniGPT, **options: Any) -> Any:
    """The step of the rung "stream", with other options of `FunctionStep`."""
    from capstone.steps import FunctionStep

    return FunctionStep(model, **{"flat": True, "stream": torch.bfloat16, **options})


def capstone_by_hand(
    names: Sequence[str], device: str, batch: int, length: int, model: Callable[[Any], Any] | None = None
) -> dict[str, Callable[[], Any]]:
    """These rungs by hand, not yet made. On a GPU their graphs share memory, so that a smaller card holds them.

    model: makes the one of a rung; by default `capstone_model`.
    """
    shared, rungs = capstone_graph_memory(device), capstone_rungs()

    def made(name: str) -> Any:
        rung = rungs[name]
        made_of = model(rung) if model else capstone_model(rung.vocabulary, device)
        return rung.made(made_of, batch, length, **shared)

    return {name: functools.partial(made, name) for name in names}


def capstone_graph_memory(device: str) -> dict[str, Any]:
    """What rungs by hand are given so that their graphs share memory; nothing without a GPU."""
    from capstone.hand.graph import GraphMemory

    return {"memory": GraphMemory()} if device == "cuda" else {}


def capstone_exact(model: MiniGPT, tokens: Tensor, targets: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    """The loss and the gradients in float32, without tensor cores."""
    from capstone.steps import ModuleStep

    return ModuleStep(model, tensor_cores=False, autocast=False, fused=False).gradients(tokens, targets)


def capstone_verified(device: str) -> dict[str, tuple[float, float]]:
    """Each Triton kernel of the capstone beside its reference: (relative error, limit); nothing without a GPU."""
    from capstone.hand.verify import verify, verify_fp8

    return verify(device) | verify_fp8(device) if device == "cuda" else {}


def capstone_attention() -> str:
    """How the step by hand reaches cuDNN's attention on a GPU."""
    from capstone.hand.attention import front_end

    version = front_end()
    return f"cuDNN's front end {version}" if version else "torch, and a copy of the gradients"


def capstone_text(files: Sequence[Any], length: int) -> Any:
    """The bytes of these files, given by their paths, as what the capstone trains on in windows of so many tokens."""
    from capstone.data import text

    return text(files, length)


def sliced(model: MiniGPT, mesh: DeviceMesh) -> MiniGPT:
    """The model under mini_model's SimpleFSDP: each parameter in slices over the mesh, gathered where it is read."""
    from mini_model.simple_fsdp import simple_fsdp

    return simple_fsdp(model, mesh)
