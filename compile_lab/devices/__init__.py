"""The same step on many devices, with real processes: ranks, collectives, pipelines, overlap, placements."""

from .collectives import Program, count, counted, fake_process_group, held, held_here
from .compiled_collectives import BUCKETED, REORDERED, Compiled, compiled
from .dtensor import Ruling
from .pipeline import measure_several, resimulated
from .pipeline_receives import covered, share_lost, slowed, waiting
from .pipeline_work import SleepingStage

__all__ = [
    "BUCKETED",
    "REORDERED",
    "Compiled",
    "Program",
    "Ruling",
    "SleepingStage",
    "compiled",
    "count",
    "counted",
    "covered",
    "fake_process_group",
    "held",
    "held_here",
    "measure_several",
    "resimulated",
    "share_lost",
    "slowed",
    "waiting",
]
