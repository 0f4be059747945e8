"""How is each parameter of a GPT split? Shapes on one rank, and why a size cannot be divided.

The parameters are those of a GPT-2 in plain torch (Radford et al., 2019), under the names of the book's MiniGPT. A
``shape`` is anything with ``vocabulary``, ``context``, ``dim``, ``layers``, ``heads`` and ``tied_head``. With a number
of ``experts`` above 0 and ``choices`` it has a mixture of experts in place of each MLP; they are 4 · dim wide, or
``expert_width``.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from ..doors import door


class Shape(Protocol):
    """What a formula needs to know of a GPT."""

    if TYPE_CHECKING:  # a frozen dataclass has them, too, and `door` looks at annotations alone

        @property
        def vocabulary(self) -> int: ...
        @property
        def context(self) -> int: ...
        @property
        def dim(self) -> int: ...
        @property
        def layers(self) -> int: ...
        @property
        def heads(self) -> int: ...
        @property
        def tied_head(self) -> bool: ...
    else:
        vocabulary: int
        context: int  # tokens
        dim: int
        layers: int
        heads: int
        tied_head: bool


@dataclass(frozen=True)
class Experts:
    """A mixture in place of each MLP: ``count`` pairs of matrices, of which a router takes ``choices`` for a token."""

    count: int
    choices: int
    width: int


def experts_of(shape: Shape) -> Experts | None:
    """The mixture of a shape that has one."""
    if not (count := getattr(shape, "experts", 0)):
        return None
    return Experts(count, getattr(shape, "choices", 1), getattr(shape, "expert_width", 0) or 4 * shape.dim)


@dataclass(frozen=True)
class Parameter:
    """A parameter of the unsharded model. One stands for those of ``count`` identical layers.

    ``part`` is "first" before the blocks, "block" in them, "last" after them. ``tp`` is the dimension along which
    tensor parallel splits it, or None if every rank of the group holds it whole. ``expert``: its rows are experts, so
    that a slice of its rows is some of them, whole.
    """

    name: str
    shape: tuple[int, ...]
    part: str
    tp: int | None = None
    count: int = 1
    expert: bool = False

    def split(self, tp: int = 1, shard: int = 1) -> tuple[int, ...]:
        """Its shape on the first rank: tensor parallel divides it, then FSDP its rows; both round up.

        FSDP pads the rows to a multiple of the ranks, so every rank's buffer has this size; the last ranks may have
        fewer rows of their own, or none.
        """
        sizes = list(self.shape)
        if self.tp is not None:
            sizes[self.tp] = math.ceil(sizes[self.tp] / tp)  # a vocabulary need not divide
        sizes[0] = math.ceil(sizes[0] / shard)
        return tuple(sizes)

    def numbers(self, tp: int = 1, shard: int = 1) -> int:
        """How many numbers of one layer are on a rank after ``split``."""
        return math.prod(self.split(tp, shard))


@door
def parameters(shape: Shape, sequence: bool = False) -> tuple[Parameter, ...]:
    """Every parameter, in the order in which the model uses it; a ``*`` in a name stands for all identical layers.

    Tensor parallel splits q, k, v by heads, the MLP by its width, the embedding and the head by the vocabulary; with
    ``sequence`` parallel, the positions too.

    >>> from compile_lab.simulator import parameters
    >>> from compile_lab.simulator.explored_view import MODELS
    >>> weight = next(each for each in parameters(MODELS["124 M"]) if each.name == "blocks.*.mlp.up.weight")
    >>> weight.shape, weight.split(tp=2), weight.split(tp=2, shard=4)
    ((3072, 768), (1536, 768), (384, 768))
    """
    dim, four, words = shape.dim, 4 * shape.dim, shape.vocabulary
    block = [
        ("norm1.weight", (dim,), None),
        ("norm1.bias", (dim,), None),
        ("attention.qkv.weight", (3 * dim, dim), 0),
        ("attention.qkv.bias", (3 * dim,), 0),
        ("attention.out.weight", (dim, dim), 1),
        ("attention.out.bias", (dim,), None),
        ("norm2.weight", (dim,), None),
        ("norm2.bias", (dim,), None),
    ]
    mlp = [
        ("mlp.up.weight", (four, dim), 0),
        ("mlp.up.bias", (four,), 0),
        ("mlp.down.weight", (dim, four), 1),
        ("mlp.down.bias", (dim,), None),
    ]
    mixed = experts_of(shape)
    head = [Parameter("head.weight", (words, dim), "last", 0), Parameter("head.bias", (words,), "last", 0)]
    return (
        Parameter("token_embedding.weight", (words, dim), "first", 0),
        Parameter("position_embedding.weight", (shape.context, dim), "first", 0 if sequence else None),
        *(
            Parameter(f"blocks.*.{name}", size, "block", tp, shape.layers)
            for name, size, tp in (block if mixed else [*block, *mlp])
        ),
        *(_mixture(shape, mixed) if mixed else ()),
        Parameter("norm.weight", (dim,), "last"),
        Parameter("norm.bias", (dim,), "last"),
        *([] if shape.tied_head else head),
    )


def _mixture(shape: Shape, mixed: Experts) -> tuple[Parameter, ...]:
    experts, dim, wide = mixed.count, shape.dim, mixed.width
    return (
        Parameter("blocks.*.mlp.router.weight", (experts, dim), "block", None, shape.layers),
        Parameter("blocks.*.mlp.up", (experts, dim, wide), "block", None, shape.layers, expert=True),
        Parameter("blocks.*.mlp.down", (experts, wide, dim), "block", None, shape.layers, expert=True),
    )


@door
def parameter_count(shape: Shape, active: bool = False, part: str | None = None) -> int:
    """How many numbers the model's parameters hold, or those of one ``part`` of it.

    ``active``: only those that a token is computed with, of the experts those that it chose.

    >>> from compile_lab.simulator import parameter_count
    >>> from compile_lab.simulator.explored_view import MIXTURES, MODELS
    >>> parameter_count(MODELS["124 M"])
    124439808
    >>> [round(parameter_count(MIXTURES["OLMoE 7 B"], active) / 1e9, 2) for active in (False, True)]
    [6.93, 1.29]
    """
    mixed, found = experts_of(shape), 0
    for each in parameters(shape):
        if part in (None, each.part):
            numbers = each.numbers() * each.count
            found += numbers * mixed.choices // mixed.count if active and mixed and each.expert else numbers
    return found


def check_divides(shape: Shape, mesh: Mapping[str, int], batch: int, length: int, sequence: bool, pieces: int) -> None:
    """Raise ValueError, naming input, rule and way out, if the model or the batch cannot be laid out on the mesh.

    ``batch`` is the number of sequences of ``length`` tokens on the whole mesh, ``pieces`` that of a pipeline's
    micro-batches.
    """
    tp, pp, cp = mesh.get("tp", 1), mesh.get("pp", 1), mesh.get("cp", 1)
    replicas = math.prod(mesh.get(axis, 1) for axis in ("replicate", "shard", "ep"))
    _check_experts(shape, mesh)
    if shape.heads % tp:
        raise ValueError(
            f"heads={shape.heads} cannot be shared by tp={tp} ranks: tensor parallel gives each rank whole heads, so "
            f"tp divides heads; try {_divisors(shape.heads)}, and put the other devices on another axis"
        )
    if shape.layers % pp:
        raise ValueError(
            f"layers={shape.layers} cannot be shared by pp={pp} stages: each stage holds as many whole layers, so pp "
            f"divides layers; try {_divisors(shape.layers)}, and put the other devices on another axis"
        )
    if cp > 1 and length % (2 * cp):
        raise ValueError(
            f"length={length} cannot be shared by cp={cp} ranks: each takes two equal pieces of a sequence, one from "
            f"the front and one from the back; make length a multiple of {2 * cp}, or take fewer ranks"
        )
    if sequence and length % tp:
        raise ValueError(
            f"length={length} cannot be shared by tp={tp} ranks: sequence parallel gives each rank as many tokens of "
            "a sequence; make length a multiple of tp, or leave sequence parallel out"
        )
    if batch % replicas:
        raise ValueError(
            f"batch={batch} cannot be shared by {replicas} replicas (replicate × shard × ep): each takes as many whole "
            f"sequences; make batch a multiple of {replicas}, or put devices on tp or pp, which share sequences"
        )
    if (batch // replicas) % pieces:
        raise ValueError(
            f"microbatches={pieces} do not divide the {batch // replicas} sequences of a replica: micro-batches are "
            f"equal; try {_divisors(batch // replicas)}, or another batch"
        )
    if pieces < pp:
        raise ValueError(
            f"microbatches={pieces} are fewer than pp={pp} stages: 1F1B then never fills the pipeline, and torch "
            "refuses it; use more micro-batches or fewer stages"
        )


def _check_experts(shape: Shape, mesh: Mapping[str, int]) -> None:
    mixed = experts_of(shape)
    if mixed and "tp" in mesh:
        raise ValueError(
            f"shape has {mixed.count} experts in place of each MLP, and tensor parallel slices an MLP: take 'ep', "
            "'fsdp' or another pattern without tp"
        )
    if "ep" in mesh and not mixed:
        raise ValueError(
            f"shape has no experts to share among ep={mesh['ep']} ranks: expert parallel is of a model with experts; "
            "take 'fsdp', or a shape with experts"
        )
    if mixed and mixed.count % mesh.get("ep", 1):
        raise ValueError(
            f"experts={mixed.count} cannot be shared by ep={mesh['ep']} ranks: each holds as many whole experts, so "
            f"ep divides them; try {_divisors(mixed.count)}"
        )


def _divisors(n: int) -> str:
    return " or ".join(str(k) for k in range(1, min(n, 64) + 1) if n % k == 0)
