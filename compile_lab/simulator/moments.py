"""When does a device hold most in a step? The peak is the largest of several moments, not the sum of what is ever held.

At the turn all activations exist and no gradient does. Then, layer by layer, gradients take the place of activations:
where parameters outweigh the tokens' activations, memory still grows, and the peak is late. In a pipeline earlier
micro-batches have made the gradients, and the peak is at one end of a micro-batch's backward. Held against the
allocators of H100 and H200 GPUs, for models without experts: chapter 11.
"""

from .holdings import (
    COPIES,
    GATHERED,
    GRADIENTS,
    LOGITS,
    PASSED,
    activations,
    buffers,
    cast,
    copied,
    experts_here,
    kept_of_a_layer,
    layer_activations,
    logits,
    stage_activations,
    units,
)
from .traffic import FP32, Layout

WORKSPACE_NBYTES = 2**26
"""cuBLAS's and cuBLASLt's, of 32 MiB each on Hopper: the first matmul makes them, and they stay."""


def transient_peak(layout: Layout, stage: int, gradients: int) -> int:
    """Bytes of the largest moment, beside parameters and the optimizer's state; ``gradients``: of all that are kept."""
    found = _of_a_pipeline if layout.size("pp") > 1 else _of_a_step
    return max(found(layout, stage, gradients))


def _of_a_step(layout: Layout, stage: int, gradients: int) -> list[int]:
    """The turn, the backward of each layer, the last first, and the end."""
    made, layers, sharded = buffers(layout, stage), layout.layers, layout.shards > 1
    block, root = units(layout, stage)
    here = layout.shards * experts_here(layout)
    around, of_blocks = _copies(layout, stage)
    # Autocast keeps its copies as long as it lasts, and of a model that is spread that is over the backward, too. A
    # compiled block makes its own, which go with its activations; so do experts under expert parallel.
    lasting = around if layout.mesh else 0
    lasting += of_blocks if layout.mesh and not layout.compiled and not layout.gathers else 0
    always = WORKSPACE_NBYTES + (0 if sharded else made[GRADIENTS])  # DDP's buckets stay from step to step
    found = [always + activations(layout, stage) + made[GATHERED] + made[LOGITS] + made[COPIES]]
    for left in reversed(range(layers)):  # how many layers' backward is to come after the one in sight
        done = (block + here) * (layers - 1 - left) + (0 if sharded else root)
        kept = left * kept_of_a_layer(layout) + layer_activations(layout) // (2 if sharded else 1)
        copies = max(lasting, around + of_blocks * (left + 1) // layers)
        found.append(always + done * gradients // (layers * (block + here) + root) + kept + copies)
        found[-1] += _scattering(layout, stage, left)
    return [*found, always + gradients + lasting]


def _copies(layout: Layout, stage: int) -> tuple[int, int]:
    """Bytes of the weights as they are computed with, around the blocks (the head) and in them: 0 without autocast."""
    around, in_blocks = copied(layout, stage)
    return layout.computed * around, layout.computed * in_blocks


def _scattering(layout: Layout, stage: int, left: int) -> int:
    """What FSDP holds beside its slices while one layer's gradients are made, and those of the layer after are sent."""
    if layout.shards == 1 or "gradients" not in layout.slices:
        return 0
    block, root = units(layout, stage)
    sent = layout.reduced * block if left < layout.layers - 1 else 0
    if not layout.gathers:
        return sent
    head = cast(layout, stage) - layout.layers * block
    gathered = root + block * (2 if left else 1)  # this layer, and the next one on its way
    return sent + layout.gathered * (gathered + block + head)  # and their gradients, before they are sent


def _of_a_pipeline(layout: Layout, stage: int, gradients: int) -> list[int]:
    """The start of a micro-batch's backward, and its end, with all others that are under way."""
    made, under_way = buffers(layout, stage), min(layout.pieces, layout.size("pp") - stage)
    one = stage_activations(layout, stage)
    around, of_blocks = _copies(layout, stage)
    copies = around + of_blocks * (under_way if layout.compiled else 1)  # a compiled block's, for each micro-batch
    always = 2 * WORKSPACE_NBYTES + gradients + copies + made[GATHERED] + made[GRADIENTS] + made[PASSED]
    # Autocast made its copies in the first micro-batch. So their casts are the oldest nodes of every later graph,
    # which the backward runs last: until then the gradient of each copy exists. Then one by one becomes fp32.
    largest = FP32 * max(each.numbers(layout.size("tp")) for each in layout.parameters_of(stage))
    end = around + (0 if layout.compiled else of_blocks) + largest
    given = layout.computed * logits(layout) if layout.is_last(stage) else 0
    return [always + under_way * one + made[LOGITS], always + (under_way - 1) * one + end + given]
