"""The training step of GPT-2 scheduled by hand: forward, backward and AdamW as one list of kernels.

Autograd decides what runs by what was written; here we decide. Matmuls are cuBLAS's and attention is
cuDNN's, as everywhere. All between them is `kernels`, and each visit to memory does all that there is to do there:

- The residual stream is written once a half block: branch, the bias of its linear, the sum and the layer norm together.
- A bias's gradient is a sum over rows that another kernel reads anyhow. It leaves partial sums in one of two buffers;
  two kernels add those of the whole network up.
- The logits become their own gradient where they lie.
- All parameters of one kind are one buffer, and AdamW writes the bf16 copy that the next step reads.
- Memory is static, so a CUDA graph holds the step.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from mini_model.inputs import instance, one_of, positive, whole
from mini_model.model import MiniGPT

from .attention import Attended, attend
from .flat import FlatParameters, vectors_of_norms
from .graph import GraphMemory, captured
from .kernel_choice import betas_of, config_of, kernels_of, matmuls_of

LINEARS = ("attention.qkv", "attention.out", "mlp.up", "mlp.down")
HEAD, TABLE = "head", "token_embedding.weight"
"""The last linear, and whose weight it has."""
EPILOGUES = ("gelu", "gelu backward", "stream")
"""What a matmul can do before it stores its result: GELU after `up`, its gradient after that of `down`, and adding the
stream after `attention.out` and `down`. None pays on an H200 (the recording ``capstone_hand``)."""


Stream = tuple[Tensor, Tensor | None, Tensor | None]
"""The residual stream, and the branch and the bias that whoever reads it next adds to it, unless the matmul has."""


@dataclass(frozen=True)
class BlockRecord:
    """What a block's forward keeps for its backward. The operands are what the block's linears were given."""

    stream1: Tensor
    norm1: tuple[Tensor, Tensor]
    qkv_operand: Any
    attended: Attended
    out_operand: Any
    stream2: Tensor
    norm2: tuple[Tensor, Tensor]
    up_operand: Any
    before: Tensor
    down_operand: Any


class HandStep:
    """A training step of a MiniGPT with a tied head, for batches of one shape.

    The model gives its parameters' values and is not used again (see `weights`). AdamW decays matrices and embeddings,
    not vectors. dtype: of matmuls, activations and the matrices' gradients, bfloat16, float32 or float64 (reference
    only); masters, moments, and the gradients of embeddings and vectors are float32, in float64 steps float64.
    kernels: "triton" or "reference"; by default what the model's device can run. graph: the step as a CUDA graph,
    captured at the first call; by default on a GPU. turned: linears whose weights are transposed once a step, because
    cuBLAS then has their input's gradient sooner. tuned: matmuls are the fastest of cuBLASLt's; by default in bf16 on a
    GPU. epilogues: what they do before they store, some of `EPILOGUES`; of tuned matmuls, or on a CPU. memory: shared
    with other captured steps.

    ValueError or TypeError for a model, shape, dtype or option that does not go.
    """

    def __init__(
        self,
        model: MiniGPT,
        batch: int,
        length: int,
        *,
        lr: float = 6e-4,
        betas: tuple[float, float] = (0.9, 0.95),
        eps: float = 1e-8,
        decay: float = 0.1,
        dtype: torch.dtype = torch.bfloat16,
        kernels: str | None = None,
        graph: bool | None = None,
        turned: tuple[str, ...] = ("mlp.down",),
        tuned: bool | None = None,
        epilogues: Collection[str] = (),
        memory: GraphMemory | None = None,
    ) -> None:
        self.config = config_of(model, length)
        self.batch, self.length = whole("batch", batch), whole("length", length)
        self.device = model.token_embedding.weight.device
        self.kernels = kernels_of(kernels, self.device, dtype)
        self.matmuls = matmuls_of(tuned, self.device, dtype)
        self.epilogues = frozenset(one_of("epilogue", each, EPILOGUES) for each in epilogues)
        if "gelu backward" in self.epilogues and "gelu" not in self.epilogues:
            raise ValueError('the epilogue "gelu backward" reads what "gelu" leaves; ask for both')
        self.dtype, self.sums = dtype, torch.float64 if dtype == torch.float64 else torch.float32
        self.betas, self.eps = betas_of(betas), positive("eps", eps)
        self.norm_eps = model.norm.eps
        self.rate = torch.tensor(positive("lr", lr), dtype=self.sums, device=self.device)
        self.count = torch.zeros((), dtype=self.sums, device=self.device)
        self._wants_graph = self.device.type == "cuda" if graph is None else instance("graph", graph, bool)
        if self._wants_graph and self.device.type != "cuda":
            raise ValueError(f"graph is True, and the model is on {self.device}; only a GPU has CUDA graphs")
        self._memory, self._ready, self._settled = memory, False, False
        self._graph: torch.cuda.CUDAGraph | None = None
        self._lay_out(model, decay)
        self._make_room()
        stacks = {one_of("linear", each, LINEARS): self._stack(each, self.regions[1].low) for each in turned}
        self._turned = {name: (stack, stack.transpose(1, 2).contiguous()) for name, stack in stacks.items()}
        self._turn()

    def step(self, tokens: Tensor, targets: Tensor) -> Tensor:
        """One step of training. tokens, targets: int64 [batch, length], ids not checked. Returns the mean loss in nats.

        The loss is 0-d, on the device, and yours to keep: nothing waits for it. The first call compiles and captures.
        ValueError for other shapes.
        """
        self._take(tokens, targets)
        if not self._ready:
            self._prepare()
        if self._graph is None:
            self._whole_step()
        else:
            self._graph.replay()
        return self.loss.clone()

    def gradients(self, tokens: Tensor, targets: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """(loss, {a parameter's name in MiniGPT: its gradient}) at the present weights; no weight changes."""
        self._take(tokens, targets)
        self._settle()
        self._forward_backward()
        return self.loss.clone(), {name: each.to(self.sums, copy=True) for name, each in self.gradient.items()}

    def weights(self) -> dict[str, Tensor]:
        """{a parameter's name in MiniGPT: a copy of its master}, as `load_state_dict(…, strict=False)` takes it."""
        return {name: each.clone() for name, each in self.master.items()}

    def restart(self, weights: Mapping[str, Tensor]) -> None:
        """From these weights on, {a parameter's name in MiniGPT: its value}, as if no step had been taken."""
        for region in self.regions:
            region.restart(weights)
        self.count.zero_()
        self._turn()

    def set_lr(self, value: float) -> None:
        """The learning rate from the next step on; no recompilation and no new capture."""
        self.rate.fill_(positive("lr", value) if value else 0.0)

    def state_dict(self) -> dict[str, Tensor]:
        """What a run needs to be continued, as copies: masters and moments, flat, and the number of steps taken."""
        return {name: each.clone() for name, each in self._state().items()}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Continue from `state_dict` of a step of the same kind and model. ValueError for another's names or sizes."""
        own = self._state()
        shapes, theirs = ({name: tuple(each.shape) for name, each in some.items()} for some in (own, state))
        if shapes != theirs:
            wrong = sorted(name for name in {*shapes, *theirs} if shapes.get(name) != theirs.get(name))
            raise ValueError(f"state is of another model or kind of step: {', '.join(wrong)} do not fit")
        for name, each in own.items():
            each.copy_(state[name])
        self._turn()
        self._settled = True

    # What lies where

    def _lay_out(self, model: MiniGPT, decay: float) -> None:
        """Three flat regions: embeddings, the blocks' matrices, and vectors in the order that kernels leave sums in."""
        parameters = dict(model.named_parameters())
        embeddings = ["token_embedding.weight", "position_embedding.weight"]
        layers = range(self.config.layers)
        matrices = [f"blocks.{i}.{linear}.weight" for i in layers for linear in LINEARS]
        norms = [name for i in layers for name in vectors_of_norms(i)]
        norms += [f"blocks.{layers[-1]}.mlp.down.bias", "norm.weight", "norm.bias"]
        others = [f"blocks.{i}.{linear}.bias" for i in layers for linear in ("attention.qkv", "mlp.up")]
        positive("decay", decay or 1.0)
        self.regions = [
            FlatParameters.of({name: parameters[name] for name in names}, self.sums, self.dtype, gradient, decay)
            for names, gradient, decay in (
                (embeddings, self.sums, decay),
                (matrices, self.dtype, decay),
                (norms + others, self.sums, 0.0),
            )
        ]
        self.master = {k: v for region in self.regions for k, v in region.views(region.master).items()}
        self.low = {k: v for region in self.regions for k, v in region.views(region.low).items()}
        self.gradient = {k: v for region in self.regions for k, v in region.views(region.gradient).items()}
        self._norm_vectors = sum(parameters[name].numel() for name in norms)

    def _make_room(self) -> None:
        """The batch, the loss, and the partial column sums. Block 0's first norm has no bias before it: its sums go to
        `dim` spare columns in front. The sums of keys' and values' biases stay zero (see `_attention_biases`)."""
        dim, layers = self.config.dim, self.config.layers
        shape = (self.batch, self.length)
        self.tokens = torch.zeros(shape, dtype=torch.int64, device=self.device)
        self.targets = torch.zeros_like(self.tokens)
        self.loss = torch.zeros((), dtype=self.sums, device=self.device)
        norm_rows, linear_rows = self._part_rows()
        self.norm_parts = torch.zeros(norm_rows, dim + self._norm_vectors, dtype=self.sums, device=self.device)
        self.linear_parts = torch.zeros(linear_rows, 7 * dim * layers, dtype=self.sums, device=self.device)

    def _part_rows(self) -> tuple[int, int]:
        return self.kernels.NORM_PARTS, self.kernels.LINEAR_PARTS

    def _norm_sums(self, at: int) -> Tensor:
        """Where the at-th norm leaves its sums: of the bias before it, of its weight, of its shift."""
        width = 3 * self.config.dim
        return self.norm_parts[:, at * width : (at + 1) * width]

    def _bias_sums(self, linear: str) -> Tensor:
        """Where the gradient of an up's bias is summed, or of the queries' third of a qkv's."""
        dim, block = self.config.dim, int(linear.split(".")[1])
        first, width = (0, dim) if linear.endswith("qkv") else (3 * dim, 4 * dim)
        return self.linear_parts[:, 7 * dim * block + first :][:, :width]

    def _stack(self, linear: str, buffer: Tensor) -> Tensor:
        """One linear's weights of all blocks in `buffer` (of the matrices' region), [layers, outputs, inputs]."""
        views = self.regions[1].views(buffer)
        first = views[f"blocks.0.{linear}.weight"]
        block = sum(views[f"blocks.0.{each}.weight"].numel() for each in LINEARS)
        return first.as_strided((self.config.layers, *first.shape), (block, *first.stride()), first.storage_offset())

    def _turn(self) -> None:
        for stack, transposed in self._turned.values():
            self.kernels.transpose(stack, transposed)

    # A step, and its parts

    def _take(self, tokens: Tensor, targets: Tensor) -> None:
        for name, given, own in (("tokens", tokens, self.tokens), ("targets", targets, self.targets)):
            if instance(name, given, Tensor).shape != own.shape or given.dtype != torch.int64:
                shape = f"int64 {list(own.shape)}"
                raise ValueError(f"{name} are {given.dtype} {list(given.shape)}; this step was made for {shape}")
            own.copy_(given)

    def _prepare(self) -> None:
        if not self._settled:
            self._settle()
        if self._wants_graph:
            state = [*self._state().values()]
            self._graph = captured(self._whole_step, state, self._memory or GraphMemory())
            self._turn()
        self._ready = True

    def _state(self) -> dict[str, Tensor]:
        """All that a step changes and the next one reads; what is turned follows from it."""
        kinds = zip(("embeddings", "matrices", "vectors"), self.regions, strict=True)
        flat = {f"{kind}.{name}": each for kind, region in kinds for name, each in region.state.items()}
        return {"count": self.count, **flat}

    def _whole_step(self) -> None:
        self._forward_backward()
        self._update()

    def _update(self) -> None:
        self.count += 1
        for region in self.regions:
            low = None if region.low is region.master else region.low
            buffers = (region.master, low, region.gradient, region.first, region.second)
            self.kernels.adamw_(*buffers, self.count, self.rate, self.betas, self.eps, region.decay)
        self._turn()

    @torch.no_grad()
    def _forward_backward(self) -> None:
        self._begin()
        records: list[BlockRecord] = []
        embedded = self.kernels.embed(
            self.tokens, self.low["token_embedding.weight"], self.low["position_embedding.weight"]
        )
        stream: Stream = embedded, None, None
        del embedded
        for block in range(self.config.layers):
            record, stream = self._block(f"blocks.{block}.", stream)
            records.append(record)
            del record
        gradient = self._head(stream)
        del stream
        for block in reversed(range(self.config.layers)):
            gradient = self._block_backward(block, gradient, records.pop())
        self._embedding_backward(gradient)
        dim, vectors = self.config.dim, self.regions[2].gradient
        self.kernels.column_sums(self.norm_parts[:, dim:], vectors[: self._norm_vectors])
        self.kernels.column_sums(self.linear_parts, vectors[self._norm_vectors :])
        self._attention_biases()

    def _attention_biases(self) -> None:
        """The values' and keys' biases, without reading a gradient of theirs.

        A row of attention's weights sums to one, so the values' bias gets the sum of the answer's gradient: that of the
        next linear's bias, through its weight. One number more on all scores of a row changes nothing, so the keys'
        bias has no gradient; what autograd finds there is rounding.
        """
        dim, layers = self.config.dim, self.config.layers
        after, qkv = (self.gradient[f"blocks.0.attention.{linear}.bias"] for linear in ("out", "qkv"))
        after = after.as_strided((layers, 1, dim), (6 * dim, dim, 1))
        values = qkv[2 * dim :].as_strided((layers, 1, dim), (7 * dim, dim, 1))
        values.copy_(torch.bmm(after, self._stack("attention.out", self.regions[1].master)))

    def _block(self, name: str, stream: Stream) -> tuple[BlockRecord, Stream]:
        """A block, up to the branch that its MLP adds."""
        qkv, out, up, down = (name + linear for linear in LINEARS)
        stream1, normed1, mean1, rstd1 = self._norm(*stream, name + "norm1", qkv)
        product = self._product(normed1, qkv, bias=True)
        attended = attend(product.view(self.batch, self.length, -1), self.config.heads)
        mixed = self._operand(attended.out, out)
        stream2, normed2, mean2, rstd2 = self._norm(*self._branch(stream1, mixed, out), name + "norm2", up)
        before, after = self._widened(normed2, up, down)
        record = BlockRecord(
            stream1, (mean1, rstd1), normed1, attended, mixed, stream2, (mean2, rstd2), normed2, before, after
        )
        return record, self._branch(stream2, after, down)

    def _head(self, stream: Stream) -> Tensor:
        """The gradient of the stream; the loss and the tied embedding's gradient, as far as the head makes it, go to
        their places."""
        last, operand, mean, rstd = self._norm(*stream, "norm", HEAD)
        losses, logits = self._loss(self._product(operand, HEAD))
        torch.mean(losses, 0, out=self.loss)
        self._weight_gradient(logits, operand, HEAD)
        gradient = self._input_gradient(logits, HEAD)
        del logits
        sums = self._norm_sums(2 * self.config.layers)
        return self.kernels.norm_backward(gradient, last, mean, rstd, self.master["norm.weight"], None, sums)

    def _block_backward(self, block: int, gradient: Tensor, record: BlockRecord) -> Tensor:
        """The gradient of the stream before the block; the weights' go to their places on the way."""
        name = f"blocks.{block}."
        qkv, out, up, down = (name + linear for linear in LINEARS)
        operand = self._gradient_operand(gradient, down)
        self._weight_gradient(operand, record.down_operand, down)
        operand = self._widened_backward(operand, record.before, down, up)
        self._weight_gradient(operand, record.up_operand, up)
        through, weight = self._input_gradient(operand, up), self.master[name + "norm2.weight"]
        sums = self._norm_sums(2 * block + 1)
        gradient = self.kernels.norm_backward(through, record.stream2, *record.norm2, weight, gradient, sums)

        operand = self._gradient_operand(gradient, out)
        self._weight_gradient(operand, record.out_operand, out)
        operand = self._qkv_operand(record.attended.backward(self._input_gradient(operand, out)), qkv)
        self._weight_gradient(operand, record.qkv_operand, qkv)
        through, weight = self._input_gradient(operand, qkv), self.master[name + "norm1.weight"]
        sums = self._norm_sums(2 * block)
        return self.kernels.norm_backward(through, record.stream1, *record.norm1, weight, gradient, sums)

    def _embedding_backward(self, gradient: Tensor) -> None:
        positions = self.gradient["position_embedding.weight"][: self.length]
        torch.sum(gradient.view(self.batch, self.length, -1), 0, dtype=self.sums, out=positions)
        self.kernels.embed_backward_(gradient, self.tokens, self.gradient["token_embedding.weight"])

    # What a step in another precision does otherwise. An operand is what a matmul is given: here, the tensor itself.

    def _settle(self) -> None:
        """Before the first step."""

    def _begin(self) -> None:
        """Before each forward."""

    def _norm(
        self, stream: Tensor, branch: Tensor | None, bias: Tensor | None, norm: str, to: str
    ) -> tuple[Tensor, Any, Tensor, Tensor]:
        """(stream, the operand of the linear `to`, mean, 1 / deviation)."""
        weight, shift = self.master[norm + ".weight"], self.master[norm + ".bias"]
        return self.kernels.add_norm(stream, branch, bias, weight, shift, self.norm_eps)

    def _branch(self, stream: Tensor, operand: Any, linear: str) -> Stream:
        """The stream after this linear's branch."""
        if "stream" in self.epilogues:
            return self._product(operand, linear, bias=True, added=stream), None, None
        return stream, self._product(operand, linear), self.low[linear + ".bias"]

    def _widened(self, operand: Any, up: str, down: str) -> tuple[Tensor, Any]:
        """What `up` makes, and the operand of `down` that GELU makes of it."""
        if "gelu" in self.epilogues:
            return self.matmuls.gelu(operand, self.low[up + ".weight"].t(), self.low[up + ".bias"])
        before = self._product(operand, up)
        return before, self._gelu(before, up, down)

    def _widened_backward(self, gradient: Any, before: Tensor, down: str, up: str) -> Any:
        """The gradient of what `up` made, as its matmuls read it."""
        if "gelu backward" in self.epilogues:
            return self.matmuls.gelu_backward(gradient, self._from_left(down), before, self._bias_sums(up)[0])
        return self._gelu_backward(self._input_gradient(gradient, down), before, up)

    def _operand(self, x: Tensor, to: str) -> Any:
        return x

    def _gradient_operand(self, gradient: Tensor, of: str) -> Any:
        return gradient

    def _gelu(self, before: Tensor, up: str, to: str) -> Any:
        return self.kernels.gelu(before, self.low[up + ".bias"])

    def _gelu_backward(self, gradient: Tensor, before: Tensor, up: str) -> Any:
        bias = self.low[up + ".bias"]
        added = torch.zeros_like(bias) if "gelu" in self.epilogues else bias  # the epilogue has added it
        return self.kernels.gelu_backward(gradient, before, added, self._bias_sums(up))

    def _qkv_operand(self, gradient: Tensor, qkv: str) -> Any:
        """The gradient as it is; of its queries' third the rows are summed (see `_attention_biases`)."""
        self.kernels.leave_sums(gradient[:, : self.config.dim], self._bias_sums(qkv))
        return gradient

    def _loss(self, logits: Tensor) -> tuple[Tensor, Any]:
        """Each row's loss, and the gradient of the logits, as its matmuls read it."""
        return self.kernels.cross_entropy_(logits, self.targets.view(-1), 1 / self.targets.numel()), logits

    def _product(self, operand: Any, linear: str, bias: bool = False, added: Tensor | None = None) -> Tensor:
        own = self.low[linear + ".bias"] if bias else None
        return self.matmuls.product(operand, self.low[weight_of(linear)].t(), own, added)

    def _input_gradient(self, gradient: Any, linear: str) -> Tensor:
        return self.matmuls.product(gradient, self._from_left(linear))

    def _from_left(self, linear: str) -> Tensor:
        """The weight, [outputs, inputs], as the gradient of the linear's input reads it: as it lies, or turned."""
        block, kind = place_of(linear)
        return self._turned[kind][1][block].t() if kind in self._turned else self.low[weight_of(linear)]

    def _weight_gradient(self, gradient: Any, operand: Any, linear: str) -> None:
        self.matmuls.product(gradient.t(), operand, out=self.gradient[weight_of(linear)])


def weight_of(linear: str) -> str:
    """Its name in MiniGPT."""
    return TABLE if linear == HEAD else f"{linear}.weight"


def place_of(linear: str) -> tuple[int, str]:
    """(the number of its block, which of `LINEARS` it is); the head is in no block."""
    if linear == HEAD:
        return 0, HEAD
    _, block, kind = linear.split(".", 2)
    return int(block), kind
