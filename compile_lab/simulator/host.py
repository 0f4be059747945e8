"""How long does a rank's program take to issue a step? The GPU can be no faster than what it is given.

Eager Python gives a layer to the GPU in about a millisecond and a half, whatever the batch. Each way of sharding adds
its own: DDP's hooks, FSDP2's gathers and frees, DTensor's bookkeeping at every operation, a pipeline's micro-batches,
each of which is issued anew. With little work on a device this, and no byte or operation, is the length of a step.
"""

import math
from dataclasses import dataclass

from ..doors import door
from .meshes import DATA_AXES
from .patterns import Plan


@door
@dataclass(frozen=True)
class HostRates:
    """Seconds that a rank's program takes for each thing that it issues. ValueError for one that is none.

    layer_s: a layer, forward and backward, with its share of the optimizer. bucket_s: an all-reduce of gradients.
    gathered_s: a gather or a scatter of FSDP2, with its hooks. tp_layer_s, tp_sp_layer_s: what DTensor adds to a layer
    under tensor parallel, alone and with the sequence split.

    The defaults are rounded from what ``experiments.patterns.calibrated`` finds in a recording: eager, torch 2.11.

    >>> from compile_lab.simulator import plan
    >>> from compile_lab.simulator.explored_view import MODELS
    >>> from compile_lab.simulator.host import HostRates, issue_s
    >>> [round(1e3 * issue_s(plan(MODELS["124 M"], pattern, 4), HostRates())) for pattern in ("ddp", "fsdp", "tp")]
    [23, 71, 106]
    """

    layer_s: float = 1.5e-3
    bucket_s: float = 0.36e-3
    gathered_s: float = 1.4e-3
    tp_layer_s: float = 7.3e-3
    tp_sp_layer_s: float = 10e-3

    def __post_init__(self) -> None:
        for name, seconds in vars(self).items():
            if not 0 <= seconds < math.inf:
                raise ValueError(f"HostRates.{name} is {seconds}: a time in seconds is 0 or more")


def issue_s(plan: Plan, host: HostRates) -> float:
    """Seconds until the busiest rank's program has issued a step.

    A stage issues its layers once for each micro-batch; checkpointing issues each forward, a third of a layer, again.
    """
    stages = plan.mesh.get("pp", 1)
    layers = plan.shape.layers / stages * (plan.microbatches if stages > 1 else 1)
    dtensor_s = (
        (host.tp_sp_layer_s if plan.pattern == "tp+sp" else host.tp_layer_s) if plan.mesh.get("tp", 1) > 1 else 0
    )
    sending_s = sum(
        each.count * (host.bucket_s if each.kind == "all_reduce" else host.gathered_s)
        for each in plan.busiest.collectives
        if each.axis in DATA_AXES
    )
    return layers * (host.layer_s + dtensor_s) * (4 / 3 if plan.checkpointing else 1) + sending_s
