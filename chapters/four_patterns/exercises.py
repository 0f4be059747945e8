"""Exercises of chapter 11, four patterns."""

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F

from compile_lab.devices import ranks
from compile_lab.devices.collectives import Program, counted
from compile_lab.simulator.patterns import plan

from ..exercises.judging import exercise

DIM = 16


SHAPE_13B = SimpleNamespace(vocabulary=50_304, context=2048, dim=5120, layers=40, heads=40, tied_head=False)
"""Of a GPT of 13 billion parameters."""


@exercise("11.2")
def three_axes(answer: Mapping[str, int]) -> str | None:
    """A mesh for 13 B on 64 devices: at most 40 GB a device, at most 2 GB of a step's traffic out of the machine."""
    if not isinstance(answer, Mapping):
        return f'this asks for the sizes of the axes, as {{"pp": 2, "shard": 16, "tp": 2}}, not {answer!r}.'
    found = plan(SHAPE_13B, "3d", answer, batch=64, precision="bf16")
    if found.devices != 64:
        return f"that is a mesh of {found.devices} devices."
    if found.total_nbytes > 40e9:
        return f"its fullest device holds {found.total_nbytes / 1e9:.1f} GB."
    outside = [each for each in found.busiest.collectives if not found.inside_machine(each.axis)]
    sent = sum(each.sent_nbytes for each in outside)
    if sent > 2e9:
        axes = sorted({each.axis for each in outside})
        return f"{sent / 1e9:.1f} GB leave the machine in a step, along {' and '.join(axes)}."
    return None


@exercise("11.3", takes=Callable)
def mlp_in_two_halves(answer: Callable[..., torch.Tensor]) -> str | None:
    """mlp(x, up, down): this rank's half of the MLP, and the whole result on both ranks, with one all-reduce."""
    try:
        results = ranks.run(_half, 2, answer, echo=False)
    except ranks.RankFailed as failed:
        return f"rank {failed.rank} failed: {str(failed).strip().splitlines()[-1]}"
    for rank, (error, made) in enumerate(results):
        if error > 1e-5:
            return f"on rank {rank} the result differs by {error:.2g} from the one of the whole MLP."
        calls = {kind: sum(n for each, n in made if each == kind) for kind, _ in made}
        if calls != {"all_reduce": 1}:
            return f"the result is right, and took {', '.join(f'{n} {kind}' for kind, n in calls.items())}."
    return None


def _half(answer: Callable[..., torch.Tensor]) -> tuple[float, list[tuple[str, int]]]:
    """The error of an answer on this rank, and the collectives that it made."""
    generator = torch.Generator().manual_seed(0)
    x, up, down = (torch.randn(*size, generator=generator) / 4 for size in ((8, DIM), (4 * DIM, DIM), (DIM, 4 * DIM)))
    whole, rank = F.gelu(x @ up.T) @ down.T, dist.get_rank()
    mine: list[Any] = []
    made = counted(Program(lambda: mine.append(answer(x, up.chunk(2)[rank], down.chunk(2, dim=1)[rank]))))
    if mine[0].shape != whole.shape:
        return float("inf"), []
    return (mine[0] - whole).abs().max().item(), [(each.kind, each.count) for each in made]
