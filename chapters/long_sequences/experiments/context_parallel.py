"""torch's ``context_parallel`` timed: one causal attention, forward and backward, over the GPUs of a host."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.attention import SDPBackend, sdpa_kernel

from compile_lab._torch.context_parallel import dealt_and_sent
from compile_lab.devices import ranks
from compile_lab.measure.timing import durations_ms, summary_ms
from compile_lab.recordings import RecordedRow

from ...registry import Progress

LENGTHS = (16_384, 65_536, 131_072)
HEADS, WIDTH, REPEATS = 16, 128, 10
ALONE = "one GPU"


@dataclass(frozen=True)
class Timed(RecordedRow):
    """A step of the slowest rank, in milliseconds with quartiles, and the most bytes that a rank held above before."""

    length: int
    order: str
    """ "in order" or "head-tail"; `ALONE` for the whole sequence on one GPU."""
    method: str
    """ "allgather" or "alltoall", torch's names for how keys and values come; the second one is a ring."""
    ranks: int
    median_ms: float
    low_ms: float
    high_ms: float
    peak_nbytes: int


def record(device: str, progress: Progress = iter, *, lengths: Sequence[int] = LENGTHS) -> dict[str, Any]:
    """``{"heads", "width", "rows": [`Timed` as JSON]}``, in bf16. ValueError where there are no two GPUs."""
    count = torch.cuda.device_count() if device == "cuda" else 0
    if count < 2:
        raise ValueError(f"context parallel is measured over GPUs, and {count} are here: take a host with two or more")
    rows = []
    for length in progress(lengths):
        found = ranks.run(on_rank, count, length, backend="nccl", echo=False)
        rows += [max(case, key=lambda timed: timed.median_ms).to_json() for case in zip(*found, strict=True)]
    return {"heads": HEADS, "width": WIDTH, "rows": rows}


def recorded(result: dict[str, Any]) -> list[Timed]:
    """The rows of a recording."""
    return [Timed.from_json(row) for row in result["rows"]]


def on_rank(length: int) -> list[Timed]:
    """The whole sequence on each GPU for itself, then both orders and both methods over all of them."""
    from torch.distributed.tensor.experimental import context_parallel

    size = dist.get_world_size()
    mesh, place = init_device_mesh("cuda", (size,)), torch.device("cuda", dist.get_rank())
    query, key, value, up = (torch.randn(1, HEADS, length, WIDTH, device=place, dtype=torch.bfloat16) for _ in range(4))
    rows = [_timed([query, key, value, up], length, ALONE, "", 1)]
    for balanced, order in ((False, "in order"), (True, "head-tail")):
        for method in ("allgather", "alltoall"):
            parts = [each.detach().clone() for each in (query, key, value, up)]
            with (
                dealt_and_sent(balanced, method),
                context_parallel(mesh, buffers=parts, buffer_seq_dims=[2] * 4, no_restore_buffers=set(parts)),
            ):
                rows.append(_timed(parts, length, order, method, size))
    return rows


def _timed(parts: Sequence[Tensor], length: int, order: str, method: str, size: int) -> Timed:
    """`parts`: query, key, value and the output's gradient."""
    query, key, value, up = parts
    leaves = [each.requires_grad_() for each in (query, key, value)]

    def step() -> None:
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            out = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        torch.autograd.grad(out, leaves, up)

    step()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    step()
    peak = torch.cuda.max_memory_allocated() - before
    spread = summary_ms(durations_ms(step, query.device, REPEATS))
    for each in leaves:
        each.requires_grad_(False)
    return Timed(length, order, method, size, **spread, peak_nbytes=peak)
