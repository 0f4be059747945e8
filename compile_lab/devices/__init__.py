"""The same step on many devices, with real processes: ranks, collectives, pipelines, overlap, placements."""

from .collectives import Program, count, counted, held, held_here, pretended
from .compiled_collectives import BUCKETED, REORDERED, Compiled, compiled
from .dtensor import Ruling
from .pipeline import measure_several, resimulated
from .pipeline_receives import covered, share_lost, slowed, waiting
from .pipeline_work import Nap

__all__ = [
    "BUCKETED",
    "REORDERED",
    "Compiled",
    "Nap",
    "Program",
    "Ruling",
    "compiled",
    "count",
    "counted",
    "covered",
    "held",
    "held_here",
    "measure_several",
    "pretended",
    "resimulated",
    "share_lost",
    "slowed",
    "waiting",
]
