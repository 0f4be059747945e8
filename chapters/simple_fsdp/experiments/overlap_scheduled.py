"""The recording ``overlap_scheduled``: a step under SimpleFSDP in the order that Inductor's estimates of times give."""

from typing import Any

from torch.distributed.device_mesh import DeviceMesh

from compile_lab.devices.step_collectives import BUCKETS_THAT_STAY_HIDDEN, SCHEDULED_BY_TIMES

from ...registry import Progress
from ...shared.experiments.overlap import BATCHES
from ...shared.experiments.overlap_compiled import BUCKET_MB, FSDP_WAYS, Cases, compared, fsdp_cases

BUCKETS = f"{BUCKET_MB} MB"
WAYS = {
    BUCKETS: FSDP_WAYS[BUCKETS],
    "scheduled": SCHEDULED_BY_TIMES,
    "scheduled in buckets": SCHEDULED_BY_TIMES | BUCKETS_THAT_STAY_HIDDEN,
}


def record(device: str, progress: Progress = iter) -> dict[str, Any]:
    """As `overlap_compiled.record`, for these ways and the largest batch alone. Some 200 s.

    Matmuls are timed as the graph is compiled, collectives reckoned: torch 2.11 has no other estimate.
    """
    return compared(_cases, device, BATCHES[device][-1:], progress)


def _cases(device: str, batch: int, mesh: DeviceMesh) -> Cases:
    return fsdp_cases(WAYS, device, batch, mesh)
