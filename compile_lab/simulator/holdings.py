"""What one device of a pipeline stage holds during a step, by formula: see ``compile_lab.simulator.patterns``."""

from .sharding import Experts, experts_of
from .traffic import FP32, Layout

GATHERED, GRADIENTS, LOGITS, COPIES, PASSED, AGAIN = (
    "gathered parameters",
    "gradients on their way",
    "logits",
    "bf16 copies",
    "between stages",
    "computed again",
)
"""The kinds of buffers: what exists only for a moment, or as a copy to be sent."""


def units(layout: Layout, stage: int) -> tuple[int, int]:
    """How many numbers a block's gathered parameters have, and those around the blocks."""
    own, tp = layout.parameters_of(stage), layout.size("tp")
    block = sum(each.numbers(tp) for each in own if each.part == "block" and layout.travels(each))
    return block, sum(each.numbers(tp) for each in own if each.part != "block")


def cast(layout: Layout, stage: int) -> int:
    """How many numbers of a stage's parameters autocast casts: those of matmuls. An embedding is looked up as it is."""
    block, root = units(layout, stage)
    tied = layout.shape.tied_head and layout.size("pp") == 1  # there the embedding is the head
    looked_up = sum(
        each.numbers(layout.size("tp"))
        for each in layout.parameters_of(stage)
        if each.part == "first" and not (tied and each.name.startswith("token"))
    )
    return layout.layers * block + root - looked_up


def experts_here(layout: Layout) -> int:
    """How many numbers a layer's experts have that stay on their device, under expert parallel."""
    own = layout.parameters_of(0)
    return sum(each.numbers(shard=layout.shards) for each in own if not layout.travels(each))


def copied(layout: Layout, stage: int) -> tuple[int, int]:
    """Of how many numbers there is a copy to compute with, around the blocks and in them: not of gathered ones."""
    if layout.computed == FP32:
        return 0, 0
    if layout.gathers:
        return 0, layout.layers * experts_here(layout)
    in_blocks = layout.layers * units(layout, stage)[0]
    return cast(layout, stage) - in_blocks, in_blocks


def layer_activations(layout: Layout) -> int:
    """Bytes that autograd keeps of one layer for one micro-batch.

    A layer keeps 16 numbers for each token and channel, if attention is one fused operation, which itself keeps only
    one number for each token and head. Four of them, the inputs and outputs of the two norms, are whole under tensor
    parallel; sequence parallel divides the inputs, but what was gathered for a matmul is kept as it is. A norm
    keeps a mean and a deviation a token. A compiled block keeps what goes into its second norm as the attention made
    it, and adds the residual again; FSDP hands it the first one's as it computes; DDP cuts it, so that all is kept.
    Context parallel keeps the keys and values of the whole sequence, and its two pieces of attention put together.
    Experts keep their rows in place of the MLP's 8 numbers: see `_mixture`.
    """
    shape, tp = layout.shape, layout.size("tp")
    tokens, channels = _sizes(layout)
    cut = layout.size("replicate") > 1 and layout.shards == 1
    less = (FP32 - layout.computed) * channels // _streams(layout) * (1 + layout.gathers)
    return (
        2 * _norm(layout)
        + 4 * channels // tp * layout.computed
        + (_mixture(layout, mixed) if (mixed := experts_of(shape)) else 8 * channels // tp * layout.computed)
        + tokens * shape.heads // tp * FP32
        + (layout.keys_and_values + channels * layout.computed if layout.size("cp") > 1 else 0)
        - (less if layout.compiled and not cut else 0)
    )


def _mixture(layout: Layout, mixed: Experts) -> int:
    """Bytes that the router and the experts of a layer keep.

    The router computes in fp32: it keeps its input in it, instead of as computed, two numbers for each assignment, and
    a copy of its weight where that is gathered in less. An expert keeps each of its rows, and before and after the GELU
    as many numbers as it is wide. What comes of each assignment is kept twice: as computed, for its weight, and in
    fp32, for ``index_add`` keeps what it adds. Under expert parallel ``index_copy`` keeps the experts' result, too.
    """
    dim, rows, exchanged = layout.shape.dim, layout.computed_rows, layout.size("ep") > 1
    less = FP32 - layout.computed
    return (
        less * _sizes(layout)[1]
        + (mixed.count * dim * FP32 if less and layout.gathers else 0)
        + rows * ((1 + exchanged) * dim + 2 * mixed.width) * layout.computed
        + layout.assignments * (dim * (layout.computed + FP32) + 2 * FP32)
    )


def kept_of_a_layer(layout: Layout) -> int:
    """The same, or with checkpointing the layer's input alone."""
    if layout.checkpointed:
        return _sizes(layout)[1] // _streams(layout) * layout.stream
    return layer_activations(layout)


def end_activations(layout: Layout) -> int:
    """Bytes that the last norm and the loss keep: its log-softmax, in fp32, and one number."""
    return _norm(layout) + (logits(layout) + 1) * FP32


def stage_activations(layout: Layout, stage: int) -> int:
    """Bytes that a stage keeps for one micro-batch. What it received is a buffer."""
    kept = layout.layers * kept_of_a_layer(layout) - (_sizes(layout)[1] * layout.stream if stage else 0)
    return kept + (end_activations(layout) if layout.is_last(stage) else 0)


def activations(layout: Layout, stage: int) -> int:
    """Bytes that autograd keeps for the backward, for all micro-batches that are under way at one time."""
    return stage_activations(layout, stage) * min(layout.pieces, layout.size("pp") - stage)


def buffers(layout: Layout, stage: int) -> dict[str, int]:
    """The most bytes of each kind of buffer: those of an allocator need not be there at the same time."""
    block, root = units(layout, stage)
    pp = layout.size("pp")
    found = {PASSED: 0, LOGITS: 0, COPIES: 0, AGAIN: layer_activations(layout) if layout.checkpointed else 0}
    if pp > 1:
        boundary = layout.rows * layout.length * layout.shape.dim * layout.stream
        found[PASSED] = boundary * ((stage > 0) + (stage < pp - 1))
    if layout.is_last(stage):
        # Sliced, their gradient is computed in three steps, each with a tensor of its own.
        as_computed = layout.computed if layout.computed < FP32 else 0
        numbers = 3 * FP32 + as_computed if _slices(layout) > 1 else FP32 + layout.computed
        found[LOGITS] = (numbers + (layout.computed if pp > 1 else 0)) * logits(layout)  # a stage keeps what it gave
    found[COPIES] = layout.computed * sum(copied(layout, stage))
    return found | {GATHERED: _gathered(layout, block, root), GRADIENTS: _on_their_way(layout, block, root)}


def _gathered(layout: Layout, block: int, root: int) -> int:
    if not layout.gathers:
        return 0
    if layout.size("pp") > 1 or not layout.reshard:  # a pipeline reshards nothing between its first and last backward
        return layout.gathered * (layout.layers * block + root)
    # What is around the blocks stays gathered; of the blocks, one is used while the next is fetched.
    return layout.gathered * (root + min(2, layout.layers) * block)


def _on_their_way(layout: Layout, block: int, root: int) -> int:
    if layout.shards == 1:
        return layout.reduced * (layout.layers * block + root) if layout.size("replicate") > 1 else 0
    if "gradients" not in layout.slices:
        return 0  # each device finds its slice of the sum in the whole gradients, which it has
    return layout.reduced * ((layout.layers * block if layout.size("pp") > 1 else block) + root)


def _sizes(layout: Layout) -> tuple[int, int]:
    """Tokens of a micro-batch, and those times the model's width."""
    tokens = layout.rows // layout.pieces * layout.length // layout.size("cp")
    return tokens, tokens * layout.shape.dim


def logits(layout: Layout) -> int:
    """How many logits of a micro-batch the first device has: tensor parallel slices them by the vocabulary."""
    return _sizes(layout)[0] * -(-layout.shape.vocabulary // _slices(layout))


def _slices(layout: Layout) -> int:
    return 1 if layout.gathered_logits else layout.size("tp")


def _streams(layout: Layout) -> int:
    return layout.size("tp") if layout.sequence else 1


def _norm(layout: Layout) -> int:
    tokens, channels = _sizes(layout)
    streams = _streams(layout)
    return channels // streams * FP32 + channels * layout.computed + 2 * tokens // streams * FP32
