"""The prediction ``capstone_foretold``: the capstone's step on more GPUs, said before it is measured.

Everything in it comes from other recordings: how long one GPU's step is, at which rates GPUs send, what hidden traffic
costs, what the program takes to issue. Its date is the date of the prediction.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from compile_lab import recordings
from compile_lab.simulator.patterns import Plan, plan
from compile_lab.simulator.recommendation import Network, compute_s, estimate, update_s

from ...registry import Progress
from ...shared import subjects
from ...shared.experiments import patterns

DEVICES = (1, 2, 8, 1024)
PATTERNS = ("ddp", "fsdp")
RUNGS = {"fused": "patterns", "compile": "patterns_compiled"}
"""Rungs that run on many devices as they are, and the recording that has what such a program takes to issue."""
CARD_NBYTES = 141e9


@dataclass(frozen=True)
class Predicted:
    """A rung on so many GPUs. ms: its step; of the device, and of the program that issues it; kept: of the speed of so
    many separate GPUs, the share that is left."""

    rung: str
    pattern: str
    ranks: int
    ms: float
    device_ms: float
    issued_ms: float
    kept: float


def record(device: str, progress: Progress = iter) -> dict[str, Any]:
    """``{"from": {recording: its date}, "rows": [Predicted as a dict]}``, a row for each rung, pattern and number."""
    taken = {name: recordings.load(name) for name in ("capstone", *RUNGS.values())}
    dates = {name: each.provenance.date for name, each in taken.items()}
    ladder = taken["capstone"].result
    alone = {row["name"]: row["median_ms"] for row in ladder["rungs"] if row["name"] in RUNGS}
    rates = patterns.calibrated(taken["patterns"].result["rows"])
    rows: list[Predicted] = []
    for rung in progress(list(RUNGS)):
        host = patterns.host_rates(taken[RUNGS[rung]].result["rows"])
        rows += _of(rung, alone[rung], ladder, replace(rates, host=host))
    return {"from": dates, "rows": [asdict(row) for row in rows]}


def _of(rung: str, alone_ms: float, ladder: Mapping[str, Any], rates: Network) -> Iterator[Predicted]:
    def planned(pattern: str, ranks: int) -> Plan:
        shape = subjects.minigpt("gpt2-124m", device="meta").config
        batch = ladder["batch"] * ranks
        return plan(shape, pattern, ranks, batch=batch, length=ladder["length"], precision="bf16")

    one = planned("one device", 1)
    computing_s = alone_ms / 1e3 - update_s(one, rates)
    network = replace(rates, flop_per_s=compute_s(one, Network(flop_per_s=1.0)) / computing_s)
    for ranks in DEVICES:
        for pattern in PATTERNS if ranks > 1 else ("one device",):
            step = estimate(planned(pattern, ranks), CARD_NBYTES, network)
            ms, device_ms, issued_ms = (round(each, 3) for each in (step.step_ms, step.device_ms, step.issued_ms))
            yield Predicted(rung, pattern, ranks, ms, device_ms, issued_ms, round(alone_ms / step.step_ms, 4))
