"""What compiling gives, as pictures: how many times eager's speed, and what of a call the GPU works and waits."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from compile_lab.modes.cost import Comparison, ModeCost
from compile_lab.modes.totals_view import COLOURS
from compile_lab.modes.view import distinct, gain, gains, vocabulary
from compile_lab.page.figures import Drawing
from compile_lab.page.marks import Axis, Row, dotted, segments, short
from compile_lab.page.tables import Cell, Table
from compile_lab.page.units import percent

SHOWN = ("eager", "default", "reduce-overhead")


def ratio(case: Mapping[str, Any], name: str = "default", of: str = "eager") -> float | None:
    """How many times the speed of one of a recorded case's ways another one has; None if either came to no end."""
    one, other = _pair(case, name, of)
    return one.speedup(other)


def text(case: Mapping[str, Any], name: str = "default", of: str = "eager") -> str:
    """The same in words: ``2.11×``, or that the quartiles of the two times overlap."""
    return gain(*_pair(case, name, of)) or "not measured"


def _pair(case: Mapping[str, Any], *names: str) -> list[ModeCost]:
    return [ModeCost.from_json(case["costs"][name]) for name in names]


def gained(cases: Iterable[Mapping[str, Any]], provenance: object) -> Drawing:
    """How many times eager's speed, a row for each size, from a recording of gains; the times as a table.

    A gain whose quartiles of times overlap with eager's has no dot; nor has a case that came to no end.
    """
    cases = list(cases)
    said = [f"{text(case)} on {case['what']}" for case in cases]
    rows = []
    for case in cases:
        costs = {name: ModeCost.from_json(cost) for name, cost in case["costs"].items()}
        eager = costs.pop("eager")
        clear = {name: cost.speedup(eager) for name, cost in costs.items() if distinct(cost, eager)}
        rows.append(Row(case["what"], clear, None if clear else text(case)))
    return dotted(
        rows,
        Axis("times eager's speed", "×"),
        title=f"In times of eager's speed, default has {', '.join(said)}.",
        caption=cases[0]["case"],
        colours=COLOURS,
        references={"eager": (1, "grey")},
        provenance=provenance,
        table=gains(cases, provenance),
    )


def busy(one: Comparison, modes: Sequence[str] = SHOWN) -> Drawing:
    """What of a call the GPU works and waits, in per cent of an eager call; the launches as a table."""
    drawn, said = [], []
    rows: list[list[Cell]] = []
    for mode in modes:
        call, seen, eager = one.costs[mode].call, one.costs[mode].launches, one.eager.call
        assert call and seen and eager  # what is drawn was measured, on a GPU
        whole = 100 * call.median_ms / eager.median_ms
        work = min(whole, 100 * seen.gpu_ms / eager.median_ms)
        drawn.append(Row(mode, {"GPU busy": work, "GPU idle": whole - work}))
        said.append(f"{percent(work / whole)} in {mode}")
        rows.append([mode, seen.kernels, seen.launches + seen.graphs, seen.launch_ms, seen.gpu_ms, call.median_ms])
    return segments(
        drawn,
        Axis("of an eager call", "%"),
        title=f"{one.name}: the part of a call for which the GPU is busy is {', '.join(said)}.",
        colours={"GPU busy": "green", "GPU idle": "grey"},
        provenance=one.provenance,
        table=Table(["mode", "kernels", "launches", "launching, ms", "GPU busy, ms", "a call, ms"], rows),
    )


def heads(cases: Sequence[Mapping[str, Any]], provenance: object) -> Drawing:
    """The time of a matmul and of a step with two sizes of vocabulary, eager and compiled; ratios in the table."""
    rows, said = [], []
    for case in sorted(cases, key=lambda case: (case["part"], case["vocabulary"])):
        costs = {mode: ModeCost.from_json(case["costs"][mode]) for mode in ("eager", "default")}
        calls = {mode: cost.call for mode, cost in costs.items() if cost.call}
        times = {mode: call.median_ms for mode, call in calls.items()}
        spreads = {mode: (call.low_ms, call.high_ms) for mode, call in calls.items()}
        words = f"{case['vocabulary']:,} words"
        behind = " and ".join(map(short, times.values())) + " ms"
        rows.append(Row(words, times, behind, case["part"], spreads=spreads))
        said += [f"{words} {text(case)}"] if "head" in case["part"] else []
    return dotted(
        rows,
        Axis("a call", "ms", log=True),
        title=f"Compiled, in times of eager's speed, the head alone: {', '.join(said)}.",
        caption="GPT-2 124M",
        colours=COLOURS,
        provenance=provenance,
        table=vocabulary(cases, provenance),
    )
