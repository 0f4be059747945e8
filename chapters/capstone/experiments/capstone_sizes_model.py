"""What the ladder's last rungs take at another batch or with another model, from bytes and FLOPs alone.

All that it knows of a rung are its kernels with GPT-2 124M and 32 sequences, in other recordings. Each family's time
grows with what limits it: FLOPs of matmuls and attention, bytes of the rest (`capstone_limits.limits`). What the
program takes to launch them is the rate of another program, a compiled GPT-2 that its host limits.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from compile_lab import recordings
from compile_lab.recordings import RecordedRow

from ...shared import capstone_limits, capstone_view

RUNGS = {
    "peer, compiled": ("capstone_peers", "peer, compiled"),
    "peer, CUDA graphs": ("capstone_peers", "peer, compiled"),
    "together": ("capstone_options", "together"),
    "hand": ("capstone_peers", "hand"),
    "all fp8": ("capstone_peers", "all fp8"),
}
"""A peer's compiled step, its forward and backward replayed, the best by the compiler and two by hand; where the
kernels of each are recorded, and under which name."""
BY_HAND = ("hand", "all fp8")
GRAPHS = ("peer, CUDA graphs", *BY_HAND)
"""Their steps are few launches, predicted as none."""
VOCABULARY = 50_304
LAUNCHING = ("modes", "GPT-2 inference, batch 1", "default")
"""A recording, a workload and a way of it whose calls take longer to launch than to run."""


@dataclass(frozen=True)
class Size(RecordedRow):
    """A GPT-2 of so many layers, and the sequences of a step."""

    layers: int
    dim: int
    heads: int
    batch: int


@dataclass(frozen=True)
class Predicted(RecordedRow):
    """Milliseconds of a step: of its kernels by family, as long as they run without a pause, and of their launches."""

    families: dict[str, float]
    launching_ms: float

    @property
    def ms(self) -> float:
        """The kernels' time or the launches', whichever is longer."""
        return max(sum(self.families.values()), self.launching_ms)


def dates() -> dict[str, str]:
    """The recordings that predictions are made of, with their dates."""
    return {
        name: recordings.load(name).provenance.date
        for name in sorted({name for name, _ in RUNGS.values()} | {LAUNCHING[0]})
    }


def predicted(size: Size) -> dict[str, Predicted]:
    """Of each rung. In fp8 the head's matmuls stay in bf16: in all rungs they have the rate of the step by hand."""
    results = {name: recordings.load(name).result for name, _ in RUNGS.values()}
    rows = {
        rung: next(row for row in results[name]["rungs"] if row["name"] == recorded and "median_ms" in row)
        for rung, (name, recorded) in RUNGS.items()
    }
    known, launch_ms = results["capstone_peers"], _launch_ms()
    before, after = (_work({**known, **sizes}) for sizes in ({}, asdict(size)))
    head_ms = capstone_view.families(rows["hand"])["matmuls"] * before["head"] / (before["head"] + before["matmuls"])
    found = {}
    for rung, row in rows.items():
        spent = capstone_view.families(row)
        paused = row["median_ms"] / (row["median_ms"] - spent.pop("rest"))  # or run at a lower clock than profiled
        spent |= {"matmuls": spent["matmuls"] - head_ms, "head": head_ms}
        families = {name: round(ms * paused * after[name] / before[name], 4) for name, ms in spent.items()}
        kernels = sum(kernel["count"] for kernel in row["kernels"]) * size.layers / known["layers"]
        found[rung] = Predicted(families, 0.0 if rung in GRAPHS else round(kernels * launch_ms, 4))
    return found


def _work(result: Mapping[str, Any]) -> dict[str, float]:
    """What each family has to do, in milliseconds of its limit; the head's matmuls apart from the blocks'."""
    work = capstone_limits.limits(result, VOCABULARY)
    head = VOCABULARY / (VOCABULARY + 12 * result["layers"] * result["dim"])
    return work | {"head": work["matmuls"] * head, "matmuls": work["matmuls"] * (1 - head)}


def _launch_ms() -> float:
    """A kernel's launch by compiled code, with all that the program does for it."""
    name, workload, mode = LAUNCHING
    cases = next(each["cases"] for each in recordings.load(name).result["workloads"] if each["name"] == workload)
    case = next(each for each in cases if each["mode"] == mode)
    return case["call"]["median_ms"] / case["launches"]["kernels"]
