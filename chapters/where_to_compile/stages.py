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

ONE_STAGE, TWO_STAGES, V_SHAPED = ("GPipe", "1F1B"), ("Interleaved1F1B", "LoopedBFS"), ("ZBVZeroBubble", "DualPipeV")
SCHEDULES = *ONE_STAGE, *TWO_STAGES, "InterleavedZeroBubble", *V_SHAPED
"""torch's schedules: with one stage on each of two ranks, or with two; the last three split the backward."""
SPLIT = SCHEDULES[4:]
MICROBATCHES, WIDTH = 4, 16


@dataclass(frozen=True)
class Run(RecordedRow):
    """One step of a schedule whose stages are compiled."""

    schedule: str
    donated: bool
    """``torch._functorch.config.donated_buffer``, which is on by default."""
    error: str = ""
    wrong_by: float = 0.0
    """Of the gradients, from one process's in eager mode."""
    backwards: int = 0
    """Compiled backward graphs that ran in the second step, on both ranks."""
    stages: int = 0

    @property
    def outcome(self) -> str:
        return self.error or ("right" if self.wrong_by < 1e-4 else f"off by {self.wrong_by:.1g}")

    @property
    def once(self) -> int:
        """As many there would be if each stage ran one for each micro-batch."""
        return self.stages * MICROBATCHES


def run(schedule: str, donated: bool = True, backend: str = "counting") -> Run:
    """Two steps on two ranks of blocks that are compiled, each a stage; what a rank says that fails is in ``error``."""
    found = [each.value for each in ranks.endings(on_rank, 2, schedule, donated, backend) if each.value]
    if said := sorted((each.error for each in found if each.error), key=_only_lost):
        return Run(schedule, donated, said[0])
    if len(found) < 2:
        return Run(schedule, donated, "a rank came to no end")
    worst = max(each.wrong_by for each in found)
    return Run(schedule, donated, "", worst, sum(each.backwards for each in found), sum(each.stages for each in found))


def _only_lost(said: str) -> bool:
    """The rank lost its partner, which has the reason."""
    return any(words in said for words in ranks.LOST)


def on_rank(schedule: str, donated: bool, backend: str) -> Run:
    """This rank's stages, compiled, through two steps of the schedule: the first one infers shapes, too."""
    warnings.simplefilter("ignore")
    size, rank = dist.get_world_size(), dist.get_rank()
    count = size if schedule in ONE_STAGE else 2 * size
    mine = [rank, count - 1 - rank] if schedule in V_SHAPED else list(range(rank, count, size))
    model, x, y = stages(count), *data()
    (model(x) - y).square().mean().backward()
    expected = copy.deepcopy([[each.grad for each in model[index].parameters()] for index in mine])
    model.zero_grad()

    counting = Counting()
    for index in mine:
        model[index].compile(backend=counting if backend == "counting" else backend)
    wrapped = [PipelineStage(model[index], index, count, torch.device("cpu")) for index in mine]
    timetable = get_schedule_class(schedule)(
        wrapped if count > size else wrapped[0],
        MICROBATCHES,
        loss_fn=lambda out, target: (out - target).square().mean() / MICROBATCHES,
        scale_grads=False,
    )
    with functorch_config.patch(donated_buffer=donated):
        try:
            for _ in range(2):
                model.zero_grad()
                counting.begin()
                timetable.step(*([x] if 0 in mine else []), **({"target": y} if count - 1 in mine else {}))
        except Exception as error:
            return Run(schedule, donated, error=first_line(error.__cause__ or error))
    off = [_off(model[index], grads) for index, grads in zip(mine, expected, strict=True)]
    return Run(schedule, donated, "", max(off), counting.backward_runs, len(mine))


def stages(count: int) -> nn.Sequential:
    """So many residual MLP blocks of one seed."""
    torch.manual_seed(0)
    return nn.Sequential(*(subjects.ResidualMLP(WIDTH) for _ in range(count)))


def data() -> tuple[Tensor, Tensor]:
    """Input and target, float32 [8, WIDTH]."""
    draw = torch.Generator().manual_seed(1)
    return torch.randn(8, WIDTH, generator=draw), torch.randn(8, WIDTH, generator=draw)


def _off(stage: nn.Module, expected: Sequence[Tensor]) -> float:
    pairs = zip(stage.parameters(), expected, strict=True)
    return max(((made.grad - exact).abs().max() / exact.abs().max()).item() for made, exact in pairs)
