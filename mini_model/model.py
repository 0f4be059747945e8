"""MiniGPT: a decoder-only transformer of GPT-2's architecture (Radford et al. 2019), in plain torch.

Pre-norm blocks, learned positions, GELU (tanh form), and attention by `F.scaled_dot_product_attention`. No
dropout: the grammar never runs out of data. Nothing in `forward` depends on a tensor's value, so Dynamo captures
one graph; what does depend on values, `check_tokens`, stands outside.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .inputs import instance, one_of, whole
from .mixture import Mixture


@dataclass(frozen=True)
class GPTConfig:
    """The shape of a GPT. ValueError if `dim` does not divide into `heads`, or a size is not at least 1.

    tied_head: the head shares the token embedding's matrix, as in GPT-2, and has no bias; otherwise it is a
    plain `nn.Linear(dim, vocabulary)`. experts: 0 for a plain MLP in each block; else that many, of which a router
    chooses `choices` for each token (`mini_model.mixture`).
    """

    vocabulary: int
    context: int  # tokens
    dim: int
    layers: int
    heads: int
    tied_head: bool = False
    experts: int = 0
    choices: int = 2

    def __post_init__(self) -> None:
        for name in ("vocabulary", "context", "dim", "layers", "heads"):
            whole(f"GPTConfig.{name}", getattr(self, name), most=2**31 - 1)
        instance("GPTConfig.tied_head", self.tied_head, bool)
        whole("GPTConfig.experts", self.experts, least=0, most=2**31 - 1), whole("GPTConfig.choices", self.choices)
        if self.dim % self.heads:
            raise ValueError(
                f"GPTConfig.dim {self.dim} does not divide into {self.heads} heads of equal width; "
                "make dim a multiple of heads"
            )
        if self.experts and self.choices > self.experts:
            raise ValueError(
                f"GPTConfig.choices {self.choices} are more than {self.experts} experts: a token chooses each one at "
                "most once; take fewer choices or more experts"
            )


MINI = GPTConfig(vocabulary=600, context=64, dim=64, layers=4, heads=4)
GPT2_124M = GPTConfig(vocabulary=50257, context=1024, dim=768, layers=12, heads=12, tied_head=True)
MINI_MIXTURE = replace(MINI, experts=8)
CONFIGS = {"mini": MINI, "mini-mixture": MINI_MIXTURE, "gpt2-124m": GPT2_124M}


def config(name: str) -> GPTConfig:
    """The configuration of that name: "mini", "mini-mixture" or "gpt2-124m". ValueError lists the names."""
    return CONFIGS[one_of("config", name, CONFIGS)]


class Attention(nn.Module):
    """Causal self-attention over heads of width dim / heads."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.qkv = nn.Linear(config.dim, 3 * config.dim)
        self.out = nn.Linear(config.dim, config.dim)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, dim = x.shape
        # [batch, length, 3 dim] -> three of [batch, heads, length, dim / heads]
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, dim // self.heads).permute(2, 0, 3, 1, 4).unbind()
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(batch, length, dim))


class MLP(nn.Module):
    """Widens four times, bends, narrows."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.up = nn.Linear(config.dim, 4 * config.dim)
        self.down = nn.Linear(4 * config.dim, config.dim)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(F.gelu(self.up(x), approximate="tanh"))


class Block(nn.Module):
    """One layer: attention, then MLP, each on a normalised copy and added to the stream."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(config.dim)
        self.attention = Attention(config)
        self.norm2 = nn.LayerNorm(config.dim)
        self.mlp = Mixture(config.dim, config.experts, config.choices) if config.experts else MLP(config)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class MiniGPT(nn.Module):
    """What is the next token?

    tokens: int64 [batch, length], ids below config.vocabulary, length at most config.context.
    Returns logits [batch, length, vocabulary]; with targets (int64 [batch, length]) the mean cross entropy, in
    nats per token.
    ValueError if the length is over the context. Ids are not checked here (see `check_tokens`).
    """

    def __init__(self, config: GPTConfig = MINI) -> None:
        super().__init__()
        self.config = instance("config", config, GPTConfig)
        self.token_embedding = nn.Embedding(config.vocabulary, config.dim)
        self.position_embedding = nn.Embedding(config.context, config.dim)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.dim)
        self.head = nn.Linear(config.dim, config.vocabulary, bias=not config.tied_head)
        self._initialise()
        if config.tied_head:
            self.head.weight = self.token_embedding.weight

    def _initialise(self) -> None:
        """GPT-2's: normal of deviation 0.02, divided by sqrt(2 layers) where a layer adds to the stream."""
        for name, parameter in self.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(parameter)
            elif "norm" not in name:
                adds_to_stream = name.endswith(("attention.out.weight", "mlp.down.weight", "mlp.down"))
                nn.init.normal_(parameter, std=0.02 / (2 * self.config.layers) ** (0.5 * adds_to_stream))

    def forward(self, tokens: Tensor, targets: Tensor | None = None) -> Tensor:
        length = tokens.shape[1]
        if length > self.config.context:
            raise ValueError(
                f"{length} tokens are more than the context of {self.config.context}; cut the input, "
                "or build the model with a larger GPTConfig.context"
            )
        positions = torch.arange(length, device=tokens.device)
        x = self.token_embedding(tokens) + self.position_embedding(positions)
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        if targets is None:
            return logits
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def check_tokens(tokens: Tensor, config: GPTConfig) -> Tensor:
    """The same tokens, if they are int64 [batch, length] with ids below config.vocabulary; else an error.

    Reads values, and so waits for the device: call it on data as it comes in, not inside a compiled function.

    >>> import torch
    >>> from mini_model.model import MINI, check_tokens
    >>> check_tokens(torch.tensor([[5, 599]]), MINI)
    tensor([[  5, 599]])
    >>> check_tokens(torch.tensor([[5, 600]]), MINI)
    Traceback (most recent call last):
        ...
    ValueError: token id 600 in row 0, position 1 is out of range: this model's ids are 0 to 599
    """
    instance("tokens", tokens, Tensor), instance("config", config, GPTConfig)
    if tokens.dtype != torch.int64 or tokens.ndim != 2:
        raise ValueError(f"tokens are {tokens.dtype} {list(tokens.shape)}; they must be int64 [batch, length]")
    outside = (tokens < 0) | (tokens >= config.vocabulary)
    if outside.any():
        row, position = outside.nonzero()[0].tolist()
        raise ValueError(
            f"token id {int(tokens[row, position])} in row {row}, position {position} is out of range: "
            f"this model's ids are 0 to {config.vocabulary - 1}"
        )
    return tokens


@torch.no_grad()
def generate(model: MiniGPT, n: int, end: int, seed: int = 0, limit: int | None = None) -> list[list[int]]:
    """n sentences drawn token by token from the model, each from the end token on up to the next one.

    A sentence longer than `limit` tokens (the model's context, unless given) is cut there and has no end token.
    ValueError if `end` is no id of the model or `limit` is over the context.

    An untrained model draws nearly any word; what it draws is cut at the limit:

    >>> from mini_model.model import MiniGPT, generate
    >>> sentences = generate(MiniGPT(), n=3, end=0, limit=5)
    >>> len(sentences), all(len(tokens) <= 5 for tokens in sentences)
    (3, True)
    """
    shape = instance("model.config", getattr(model, "config", None), GPTConfig)
    whole("n", n, least=0), whole("end", end, 0, shape.vocabulary - 1), whole("seed", seed, 0)
    limit = shape.context if limit is None else whole("limit", limit, 1, shape.context)
    device = model.head.weight.device
    tokens = torch.full((n, 1), end)
    generator = torch.Generator().manual_seed(seed)
    finished: list[list[int]] = []
    while len(tokens) and tokens.shape[1] <= limit:
        logits = model(tokens.to(device))[:, -1].float().cpu()
        drawn = torch.multinomial(logits.softmax(-1), 1, generator=generator)
        tokens = torch.cat([tokens, drawn], dim=1)
        ended = drawn[:, 0] == end
        finished += tokens[ended, 1:].tolist()
        tokens = tokens[~ended]
    return finished + tokens[:, 1:].tolist()
