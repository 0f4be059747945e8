"""Compiled pipeline stages under torch's schedules: is a step right, and how often do backwards run?"""

import copy
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import get_schedule_class

from compile_lab._torch.aot import functorch_config
from compile_lab.devices import ranks
from compile_lab.recordings import RecordedRow

from ..shared import subjects
from ..shared.counting import Counting
from .grid import first_line
from .split_backward import DI, DW, SplitBackward

ONE_STAGE, TWO_STAGES, V_SHAPED = ("GPipe", "1F1B"), ("Interleaved1F1B", "LoopedBFS"), ("ZBVZeroBubble", "DualPipeV")
SCHEDULES = *ONE_STAGE, *TWO_STAGES, "InterleavedZeroBubble", *V_SHAPED
"""torch's schedules: with one stage on each of two ranks, or with two; the last three split the backward."""
SPLIT = SCHEDULES[4:]
MATMULS = 4
"""Of a stage's backward: its block has two linear layers."""
MICROBATCHES, WIDTH = 4, 16
WAYS = DONATED, FREE, CUT = "whole", "whole, without donated buffers", "cut into dI and dW"
"""How a stage's backward is compiled: as torch does, with ``torch._functorch.config.donated_buffer`` off, or split."""


class StepFailed(Exception):
    """What a rank's step raised, in a line."""


@dataclass(frozen=True)
class Run(RecordedRow):
    """One step of a schedule whose stages are compiled."""

    schedule: str
    way: str
    """One of `WAYS`."""
    error: str = ""
    wrong_by: float = 0.0
    """Of the gradients, from one process's in eager mode."""
    backwards: int = 0
    """Compiled whole backwards that ran in the second step, on both ranks."""
    matmuls: int = 0
    """In the compiled backwards of that step."""
    stages: int = 0

    @property
    def outcome(self) -> str:
        return self.error or ("right" if self.wrong_by < 1e-4 else f"off by {self.wrong_by:.1g}")

    @property
    def once(self) -> int:
        """As many backwards there would be if each stage ran one for each micro-batch."""
        return self.stages * MICROBATCHES

    @property
    def matmuls_once(self) -> int:
        """As many matmuls these would have."""
        return MATMULS * self.once


def run(schedule: str, way: str = DONATED, backend: str = "counting") -> Run:
    """Two steps on two ranks of blocks that are compiled, each a stage; what a rank says that fails is in ``error``.

    backend: "counting" runs AOTAutograd's graphs as they are, "inductor" compiles them, and counts in `CUT` alone.
    """
    ends = ranks.endings(on_rank, 2, schedule, way, backend)
    if raised := sorted((each.raised.partition(": ")[2] for each in ends if each.raised), key=_only_lost):
        return Run(schedule, way, raised[0])
    if any(each.value is None for each in ends):
        return Run(schedule, way, "a rank came to no end")
    found: list[Run] = [each.value for each in ends]
    counts = [sum(getattr(each, name) for each in found) for name in ("backwards", "matmuls", "stages")]
    return Run(schedule, way, "", max(each.wrong_by for each in found), *counts)


def _only_lost(message: str) -> bool:
    """The rank lost its partner, which has the reason."""
    return any(words in message for words in ranks.LOST)


def on_rank(schedule: str, way: str, backend: str) -> Run:
    """This rank's stages, compiled, through two steps of the schedule: the first one infers shapes, too."""
    warnings.simplefilter("ignore")
    size, rank = dist.get_world_size(), dist.get_rank()
    count = size if schedule in ONE_STAGE else 2 * size
    mine = [rank, count - 1 - rank] if schedule in V_SHAPED else list(range(rank, count, size))
    model, x, y = stages(count), *data()
    (model(x) - y).square().mean().backward()
    expected = copy.deepcopy([[p.grad for p in model[index].parameters() if p.grad is not None] for index in mine])
    model.zero_grad()

    counting, cut = Counting(), [SplitBackward(*([torch.compile] if backend == "inductor" else [])) for _ in mine]
    for index, split in zip(mine, cut, strict=True):
        model[index].compile(backend=split if way == CUT else counting if backend == "counting" else backend)
    builders = [split.weights if way == CUT else None for split in cut]
    wrapped = [
        PipelineStage(model[index], index, count, torch.device("cpu"), dw_builder=weights)
        for index, weights in zip(mine, builders, strict=True)
    ]
    timetable = get_schedule_class(schedule)(
        wrapped if count > size else wrapped[0],
        MICROBATCHES,
        loss_fn=lambda out, target: (out - target).square().mean() / MICROBATCHES,
        scale_grads=False,
    )
    with functorch_config.patch(donated_buffer=way == DONATED):
        try:
            for _ in range(2):
                model.zero_grad()
                counting.begin()
                calls = [split.calls[part] for split in cut for part in (DI, DW)]
                for each in calls:
                    each.clear()
                timetable.step(*([x] if 0 in mine else []), **({"target": y} if count - 1 in mine else {}))
        except Exception as error:
            # Not returned: gloo's send to a rank that has ended well may wait for ever, and nobody would end that.
            raise StepFailed(first_line(error.__cause__ or error)) from None
    off = [_off(model[index], grads) for index, grads in zip(mine, expected, strict=True)]
    matmuls = sum(each["aten.mm.default"] for each in [counting.backward_calls, *calls])
    return Run(schedule, way, "", max(off), counting.backward_runs, matmuls, len(mine))


def stages(count: int) -> nn.Sequential:
    """So many residual MLP blocks of one seed."""
    torch.manual_seed(0)
    return nn.Sequential(*(subjects.ResidualMLP(WIDTH) for _ in range(count)))


def data() -> tuple[Tensor, Tensor]:
    """Input and target, float32 [8, WIDTH]."""
    draw = torch.Generator().manual_seed(1)
    return torch.randn(8, WIDTH, generator=draw), torch.randn(8, WIDTH, generator=draw)


def _off(stage: nn.Module, expected: Sequence[Tensor]) -> float:
    pairs = zip((p.grad for p in stage.parameters() if p.grad is not None), expected, strict=True)
    return max(((made - exact).abs().max() / exact.abs().max()).item() for made, exact in pairs)
