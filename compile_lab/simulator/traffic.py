"""The collectives of one device of one pipeline stage, by formula: see ``compile_lab.simulator.patterns``."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from .collectives import Collective
from .experts import Load
from .meshes import SLICED_AXES
from .pipeline import table
from .sharding import Parameter, Shape, experts_of, parameters
from .wire import buckets

FP32, INT64 = 4, 8

LOSS_REDUCES = 3
"""All-reduces of one fp32 number a token, by which a loss of sliced logits is computed: torch's ``loss_parallel``."""

FIRST_BUCKET_NBYTES, BUCKET_NBYTES = 2**20, 25 * 2**20
"""DDP's default buckets: a small one first, so that the first all-reduce starts early, then 25 MiB each."""


@dataclass(frozen=True)
class Layout:
    """A model on a mesh, of which each replica computes ``rows`` sequences a step, in ``pieces`` micro-batches.

    ``computed``, ``gathered`` and ``reduced`` are bytes of a number, as in ``patterns.Precision``. ``slices`` is what
    each device along ``shard`` has a slice of; ``reshard``: does a layer's gathered copy go after its forward?
    ``checkpointed``: each layer keeps its input alone, and is computed again in the backward. ``gathered_logits``: does
    each device along ``tp`` compute the loss of all logits, instead of its slice's part? ``compiled``: the blocks are.
    ``load``: what the router gives to this device's experts; without, as much as to all others'.
    """

    shape: Shape
    mesh: Mapping[str, int]
    rows: int
    length: int
    pieces: int
    sequence: bool
    computed: int
    gathered: int
    reduced: int
    slices: tuple[str, ...] = ("parameters", "gradients", "state")
    reshard: bool = True
    checkpointed: bool = False
    gathered_logits: bool = False
    compiled: bool = False
    load: Load | None = None

    def size(self, axis: str) -> int:
        return self.mesh.get(axis, 1)

    @property
    def layers(self) -> int:
        """Blocks of a stage."""
        return self.shape.layers // self.size("pp")

    @property
    def stream(self) -> int:
        """Bytes of a number between blocks: under autocast it stays in fp32, but FSDP casts what a block is given."""
        return self.gathered if self.gathers else FP32

    @property
    def sliced_along(self) -> str:
        """The axis along which each device has a slice of each parameter."""
        return next((axis for axis in SLICED_AXES if axis in self.mesh), "shard")

    @property
    def shards(self) -> int:
        """Of how many slices of a parameter a device has one."""
        return self.size(self.sliced_along)

    @property
    def gathers(self) -> bool:
        """Does a device hold a slice of each parameter only, as FSDP's?"""
        return self.shards > 1 and "parameters" in self.slices

    @property
    def keys_and_values(self) -> int:
        """Bytes of the keys and values of a layer that context parallel gathers, over the whole sequence."""
        return 2 * self.rows * self.length * self.shape.dim * self.computed if self.size("cp") > 1 else 0

    @property
    def assignments(self) -> int:
        """Pairs of a token of a micro-batch and an expert that it chose; 0 without experts."""
        mixed = experts_of(self.shape)
        return mixed.choices * (self.rows // self.pieces * self.length // self.size("cp")) if mixed else 0

    @property
    def computed_rows(self) -> int:
        """How many rows the experts of this device compute for a micro-batch in a layer."""
        return round(self.load.computed * self.assignments) if self.load else self.assignments

    @property
    def exchanged_rows(self) -> int:
        """Rows of the fuller end of an exchange: those of this device's tokens, or those of its experts."""
        if not self.load:
            return self.assignments
        return round((self.load.own + max(self.load.dispatched, self.load.received)) * self.assignments)

    def travels(self, parameter: Parameter) -> bool:
        """Is this parameter gathered and scattered in a unit of FSDP's? Under expert parallel an expert stays."""
        return not (parameter.expert and self.size("ep") > 1)

    def is_last(self, stage: int) -> bool:
        return stage == self.size("pp") - 1

    def parameters_of(self, stage: int) -> tuple[Parameter, ...]:
        """The parameters of a stage, with the stage's own number of layers. A tied head is on the first and last."""
        here = {"first": stage == 0, "last": self.is_last(stage), "block": True}
        own = [
            replace(each, count=self.layers) if each.part == "block" else each
            for each in parameters(self.shape, self.sequence)
            if here[each.part]
        ]
        if self.shape.tied_head and stage and self.is_last(stage):
            own.append(Parameter("head.weight", (self.shape.vocabulary, self.shape.dim), "last", 0))
        return tuple(own)


def collectives(layout: Layout, stage: int) -> tuple[Collective, ...]:
    """All collectives of a step on the first device of a stage, sorted by axis and kind."""
    sums: dict[tuple[str, str], list[int]] = {}
    for kind, axis, count, payload in _each(layout, stage):
        if count and layout.size(axis) > 1:
            totals = sums.setdefault((axis, kind), [0, 0])
            totals[0] += count
            totals[1] += count * payload
    return tuple(
        Collective(kind, axis, layout.size(axis), count, payload, _away(layout) if kind == "all_to_all" else None)
        for (axis, kind), (count, payload) in sorted(sums.items())
    )


Row = tuple[str, str, int, int]
"""Kind, axis, count, and the payload of each in bytes."""


def _each(layout: Layout, stage: int) -> Iterator[Row]:
    own = layout.parameters_of(stage)
    yield from _along_tp(layout, stage)
    yield from _along_pp(layout, stage)
    yield from _along_cp(layout)
    yield from _along_ep(layout)
    if layout.shards > 1:
        yield from _sharded(layout, stage, own)
    else:
        made = [layout.reduced * each.numbers(layout.size("tp")) for each in reversed(own) for _ in range(each.count)]
        for bucket in buckets(made, BUCKET_NBYTES, FIRST_BUCKET_NBYTES):
            yield "all_reduce", "replicate", 1, sum(made[position] for position in bucket)


def _along_tp(layout: Layout, stage: int) -> Iterator[Row]:
    """One all-reduce forward and one backward for each pair of split matmuls; or a gather and a scatter in its place.

    The embedding and the head are split by the vocabulary, so each adds one more. The logits stay sliced: for the loss
    the devices exchange, for each token, the largest logit, the sum of exponentials, and the target's part. (Or they
    are gathered.) A pair's
    result travels as it was computed, and its input, which a norm made, in fp32: autocast computes norms in that.
    """
    shape, pieces = layout.shape, layout.pieces
    tokens = layout.rows // pieces * layout.length
    first, last = stage == 0, layout.is_last(stage)
    counts = (2 * layout.layers, layout.computed), (2 * layout.layers + last, FP32), (first, layout.stream)
    for kind in ("all_gather", "reduce_scatter") if layout.sequence else ("all_reduce",):
        yield from ((kind, "tp", pieces * count, tokens * shape.dim * size) for count, size in counts)
    if layout.checkpointed:  # again, up to the last tensor that the backward needs: not the second pair's result
        yield (
            "reduce_scatter" if layout.sequence else "all_reduce",
            "tp",
            pieces * layout.layers,
            tokens * shape.dim * layout.computed,
        )
        yield "all_gather", "tp", 2 * pieces * layout.layers * layout.sequence, tokens * shape.dim * FP32
    if layout.sequence:
        positions = layout.length * shape.dim * layout.stream
        yield from ((kind, "tp", pieces * first, positions) for kind in ("all_gather", "reduce_scatter"))
        # A norm sees a slice of the tokens: the gradients of its weight and bias have to be added up.
        yield "all_reduce", "tp", 2 * (2 * layout.layers + last), shape.dim * 4
    if layout.gathered_logits:
        padded = -(-shape.vocabulary // layout.size("tp")) * layout.size("tp")
        yield "all_gather", "tp", pieces * last, tokens * padded * layout.computed
    else:
        yield "all_reduce", "tp", LOSS_REDUCES * pieces * last, tokens * FP32


def _along_pp(layout: Layout, stage: int) -> Iterator[Row]:
    """Sends each micro-batch's activation to the next stage, and its gradient to the one before."""
    shape, pp = layout.shape, layout.size("pp")
    neighbours = (stage > 0) + (stage < pp - 1)
    activation = layout.rows // layout.pieces * layout.length * shape.dim * layout.stream
    yield "send", "pp", neighbours * layout.pieces, activation
    if shape.tied_head and pp > 1 and (stage == 0 or layout.is_last(stage)):
        tied = Parameter("token_embedding.weight", (shape.vocabulary, shape.dim), "first", 0)
        yield "send", "pp", 1, 4 * tied.numbers(layout.size("tp"), layout.shards)


def _along_cp(layout: Layout) -> Iterator[Row]:
    """Keys and values of a layer, each gathered for its forward, and their gradients added up and scattered."""
    again = layout.checkpointed
    yield "all_gather", "cp", 2 * layout.layers * (1 + again), layout.keys_and_values // 2
    yield "reduce_scatter", "cp", 2 * layout.layers, layout.keys_and_values // 2


def _along_ep(layout: Layout) -> Iterator[Row]:
    """In a layer the number of rows for each expert, the rows to their experts, and back; backward the rows again.

    With checkpointing all of the forward's are exchanged again: the backward needs what came back.
    """
    if not (mixed := experts_of(layout.shape)):
        return
    again = layout.checkpointed
    yield "all_to_all", "ep", layout.layers * (1 + again), mixed.count * INT64
    rows = layout.exchanged_rows * layout.shape.dim * layout.computed
    yield "all_to_all", "ep", layout.layers * (4 + 2 * again), rows


def _away(layout: Layout) -> int | None:
    """Bytes that leave a device whose experts have a load of their own: its rows go away, and theirs go back."""
    if not layout.load or not (mixed := experts_of(layout.shape)):
        return None
    ranks, again = layout.size("ep"), layout.checkpointed
    numbers = (1 + again) * mixed.count * INT64 * (ranks - 1) / ranks
    rows = (2 + again) * layout.load.sent * layout.assignments * layout.shape.dim * layout.computed
    return round(layout.layers * (numbers + rows))


def _sharded(layout: Layout, stage: int, own: tuple[Parameter, ...]) -> Iterator[Row]:
    """Gathers and scatters of FSDP's units: each block, and all around the blocks. Rows are padded to divide.

    Where parameters are whole (ZeRO-1 and 2), gradients are scattered all the same; each device updates its slice, and
    what is gathered, once, are the new parameters, in the precision in which they are held. Otherwise a block is
    gathered for its forward and, if it is resharded, again for its backward; the rest once. In a pipeline a block stays
    gathered from one backward to the next action of its stage. Gradients are scattered once, then added up over
    replicas.
    """
    tp, shard, axis = layout.size("tp"), layout.shards, layout.sliced_along
    block = shard * sum(each.numbers(tp, shard) for each in own if each.part == "block" and layout.travels(each))
    root = shard * sum(each.numbers(tp, shard) for each in own if each.part != "block")
    for count, gathers, numbers in ((layout.layers, _gathers(layout, stage), block), (root > 0, 1, root)):
        yield "all_gather", axis, count * gathers, numbers * (layout.gathered if layout.gathers else FP32)
        yield "reduce_scatter", axis, count, numbers * layout.reduced
        yield "all_reduce", "replicate", count, numbers // shard * layout.reduced


def _gathers(layout: Layout, stage: int) -> int:
    """How often a block is gathered in a step: before each action of its stage, unless a backward left it gathered."""
    if layout.size("pp") == 1:
        return 2 if layout.reshard else 1
    gathers, gathered = 0, False
    for kind, _, _ in table("1F1B", layout.size("pp"), layout.pieces)[stage]:
        gathers += not gathered
        gathered = kind == "B"
    return gathers
