"""Eager and compiled, each against float64: operators and chains. Which one is closer to the truth?

What the chapter needs most comes first, and nothing is begun after its share of the time is spent. A part that fails is
kept as the reason; the rest stands.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from compile_lab.measure.timing import one_thread
from compile_lab.recordings import Provenance, Recording

from ...experiment import Attempts
from ...registry import Progress
from ..rounding.chains import CPU_WAYS, EMULATED, WAYS, ChainError, chains_judged
from ..rounding.operators import OPERATORS, OperatorError, judged

LAST_START_S = 200.0
"""No part is begun later than this."""
FP32_WAYS = tuple(way for way in WAYS if way != EMULATED)
"""On a GPU: casts are emulated where there are some, in bf16; the other options are about fp32."""


@dataclass(frozen=True)
class Numerics:
    """What a recording holds, as rows; ``stopped`` says of each part that is not there why."""

    operators: tuple[OperatorError, ...]
    chains: tuple[ChainError, ...]
    stopped: Mapping[str, str]
    provenance: Provenance


def recorded(recording: Recording) -> Numerics:
    """A recording of this experiment, as rows."""
    operators = tuple(map(OperatorError.from_json, recording.result["operators"]))
    chains = tuple(map(ChainError.from_json, recording.result["chains"]))
    return Numerics(operators, chains, recording.result["stopped"], recording.provenance)


def record(device: str, progress: Progress = iter, *, names: tuple[str, ...] = OPERATORS) -> dict[str, Any]:
    """Operators and chains in bf16, fp32 and, on a GPU, tf32. About two minutes on an H200.

    Returns ``{"operators", "chains"}``, lists of the rows that `recorded` gives back, ``"stopped"``: a reason for each
    part that is not there, and ``"seconds"`` of each part.
    """
    precisions = ("bf16", "fp32", "tf32") if device == "cuda" else ("bf16", "fp32")
    fp32_ways = FP32_WAYS if device == "cuda" else CPU_WAYS
    parts: list[tuple[str, str, Callable[[], list[Any]]]] = [
        *(("operators", each, lambda each=each: judged(names, each, device)) for each in precisions),
        ("chains", "bf16", lambda: chains_judged("bf16", device, CPU_WAYS)),
        ("chains", "fp32", lambda: chains_judged("fp32", device, fp32_ways)),
    ]
    found: dict[str, list[Any]] = {"operators": [], "chains": []}
    seconds: dict[str, float] = {}
    attempts = Attempts(LAST_START_S)
    for kind, precision, measured in progress(parts):
        part, since = f"{kind} {precision}", time.monotonic()
        with one_thread():
            rows = attempts.in_time(measured, part=part)
        if rows is not None:
            found[kind] += [row.to_json() for row in rows]
            seconds[part] = round(time.monotonic() - since, 1)
    return {**found, "stopped": attempts.by("part"), "seconds": seconds}
