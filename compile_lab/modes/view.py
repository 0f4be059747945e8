"""The modes as a reader sees them: one table a workload, one panel a choice, time by phase, and what to choose."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..measure import timing
from ..page.figures import Drawing
from ..page.marks import Axis, Row, segments, short
from ..page.tables import Cell, Code, Table
from ..page.units import number, percent, with_quartiles
from .cost import MODES, PHASES, Comparison, ModeCost, Quartiles


def table(comparison: Comparison, start: str = "") -> Table:
    """One row a mode: time per call against eager, compile time, break-even (cold if that was measured, or `start`)."""
    columns = ["mode", "ms a call", "× eager", "compile, cold, s", "warm, s", "pays after, calls"]
    rows = [_row(comparison, cost, start) for cost in comparison.costs.values()]
    return Table(columns, rows, f"{comparison.name}: {comparison.what} · {comparison.provenance}", "lrrrrr")


def _row(comparison: Comparison, cost: ModeCost, start: str) -> list[Cell]:
    if cost.stopped:
        return [cost.mode, cost.stopped, None, None, None, None]
    seconds = [None if one is None else one.seconds for one in (cost.cold, cost.warm)]
    pays = None if cost.mode == "eager" else pays_after(cost, comparison.eager, start)
    return [comparison.named(cost.mode), _time(cost.call), gain(cost, comparison.eager), *seconds, pays]


def distinct(cost: ModeCost, eager: ModeCost) -> bool:
    """Whether the quartiles of their times per call do not overlap."""
    return bool(cost.call and eager.call and timing.distinct(cost.call, eager.call))


def gain(cost: ModeCost, eager: ModeCost) -> str | None:
    """How many times eager's speed, or that the two cannot be told apart."""
    if cost.mode == "eager" and cost is eager:
        return times(1.0)
    ratio = cost.speedup(eager)
    return times(ratio) if ratio is None or distinct(cost, eager) else "not told apart"


def pays_after(cost: ModeCost, eager: ModeCost, start: str = "") -> str | None:
    """After how many calls compiling has paid, in words; `start` is cold if that was measured, else warm."""
    start = start or ("cold" if cost.cold else "warm")
    if getattr(cost, start) is None:
        return None
    if cost.call and eager.call and not distinct(cost, eager):
        return "not told apart"
    calls, ends = cost.break_even(eager, start), cost.break_even_ends(eager, start)
    if calls is None:
        return "never" if cost.call and eager.call else None
    early, late = ends or (None, None)
    spread = "" if early is None or late is None else f" ({number(early)} to {number(late)})"
    return number(calls) + spread + ("" if start == "cold" else " (warm)")


def _time(call: Quartiles | None) -> str | None:
    """A time per call with its quartiles, in milliseconds."""
    return with_quartiles(call.median_ms, call.low_ms, call.high_ms) if call else None


def times(ratio: float | None) -> str | None:
    """A ratio as "1.37×"."""
    return None if ratio is None else f"{ratio:.2f}×"


def launches(comparison: Comparison, modes: Sequence[str] = MODES) -> Table:
    """One row a mode: kernels, launches, the CPU's time in them, the GPU's busy time, and the time of a call."""
    columns = ["mode", "kernels", "launches", "graphs", "launching, ms", "GPU busy, ms", "a call, ms"]
    rows: list[list[Cell]] = []
    for cost in (comparison.costs[mode] for mode in modes if mode in comparison.costs):
        if (seen := cost.launches) and cost.call:
            figures = [seen.kernels, seen.launches, seen.graphs, seen.launch_ms, seen.gpu_ms, cost.call.median_ms]
            rows.append([cost.mode, *figures])
    return Table(columns, rows, f"One call of {comparison.name} · {comparison.provenance}", "lrrrrrr")


def searches(comparisons: Iterable[Comparison]) -> Table:
    """One row a workload: what max-autotune timed, for how many operators Triton was quicker than
    the library's, and what compiling then took."""
    rows: list[list[Cell]] = []
    provenance: object = ""
    for one in comparisons:
        cost, provenance = one.costs["max-autotune"], one.provenance
        both = [(s.triton_ms, s.library_ms) for s in cost.searches if s.library_ms and s.triton_ms]
        rows.append(
            [
                one.name,
                one.limits or "nothing",
                len(cost.searches),
                sum(search.timed for search in cost.searches),
                f"{sum(triton < library for triton, library in both)} of {len(both)}",
                cost.stopped or (round(cost.cold.seconds, 1) if cost.cold else None),
            ]
        )
    columns = ["workload", "left out", "operators", "kernels timed", "Triton quicker", "compile, s"]
    return Table(columns, rows, f"What max-autotune searched · {provenance}", "llrrrr")


def host(comparison: Comparison) -> Table:
    """One row a mode: a call in a row of them, how long the GPU computes in it, how long the calling thread
    works for it, and where Python spends most time."""
    rows: list[list[Cell]] = []
    for cost in comparison.done.values():
        if cost.host and cost.call:
            busiest = ", ".join(f"{name} {percent(share)}" for name, share in cost.host.busiest[:3])
            gpu_us = round(1e3 * cost.launches.gpu_ms) if cost.launches else None
            times = [1e3 * cost.call.median_ms, cost.host.thread_us]
            rows.append([comparison.named(cost.mode), gpu_us, *map(round, times), busiest])
    columns = ["mode", "GPU busy, µs", "a call, µs", "thread at work, µs", "Python's time, most of it"]
    return Table(columns, rows, f"One call of {comparison.name} · {comparison.provenance}", "lrrrl")


def phases(comparison: Comparison, start: str = "cold") -> Drawing:
    """Compile time by phase, a row a mode; ``start`` is "cold" or "warm"."""
    compiled = {comparison.named(mode): getattr(cost, start) for mode, cost in comparison.done.items()}
    rows = [Row(mode, {phase: one.phases_s[phase] for phase in PHASES}) for mode, one in compiled.items() if one]
    return segments(
        rows,
        Axis("compiling", "s"),
        title=f"Compiling {comparison.name}, {start}, in seconds: "
        f"{', '.join(f'{row.name} {short(sum(row.sums().values()))}' for row in rows)}.",
        provenance=comparison.provenance,
    )


def choices(comparisons: Iterable[Comparison], calls: Sequence[int], start: str = "cold") -> Table:
    """One row a workload: the mode with the least time for compiling and so many calls together."""
    columns = ["workload", *(f"{count:,} calls" for count in calls)]
    rows = [[one.name, *(one.named(one.best_after(count, start)) for count in calls)] for one in comparisons]
    title = f"Least time for compiling, {start}, and running together"
    return Table(columns, rows, title, folded=f"{title}, for so many calls")


def gains(cases: Iterable[Mapping[str, Any]], provenance: object) -> Table:
    """One row a case of a recording of gains: eager and compiled, and how many times faster."""
    rows: list[list[Cell]] = []
    for case in cases:
        costs = {name: ModeCost.from_json(cost) for name, cost in case["costs"].items()}
        for name, cost in costs.items():
            ratio = gain(cost, costs["eager"])
            rows.append([f"{case['case']}, {case['what']}", name, cost.stopped or _time(cost.call), ratio])
    return Table(["case", "", "ms a call", "× eager"], rows, str(provenance), "llrr")


def graph_cases(cases: Iterable[Mapping[str, Any]], provenance: object) -> Table:
    """One row a function: what CUDA graphs did with it whole, and cut into parts around an obstacle."""
    rows = []
    for case in cases:
        whole, parts = (ModeCost.from_json(case[name]) for name in ("whole", "parts"))
        row: list[Cell] = [Code(case["case"])]
        for cost in (whole, parts):
            launches = f"{seen.graphs:g} + {seen.launches:g}" if (seen := cost.launches) else None
            us = round(1e3 * cost.call.median_ms) if cost.call else None
            row += [cost.stopped or cost.cuda_graphs, launches, us]
        rows.append(row)
    launched = "graphs + kernels\nlaunched"
    columns = ["function", "one graph or none", launched, "µs a call", "in parts (the default)", launched, "µs a call"]
    return Table(columns, rows, str(provenance), "llrrlrr")


def vocabulary(cases: Iterable[Mapping[str, Any]], provenance: object) -> Table:
    """One row a vocabulary and part: eager and compiled, and how many times faster."""
    rows = []
    for case in sorted(cases, key=lambda case: (case["part"], case["vocabulary"])):
        eager, default = (ModeCost.from_json(case["costs"][mode]) for mode in ("eager", "default"))
        shown = [cost.stopped or _time(cost.call) for cost in (eager, default)]
        rows.append([case["part"], case["vocabulary"], *shown, gain(default, eager)])
    return Table(["", "vocabulary", "eager, ms", "default, ms", "× eager"], rows, str(provenance), "lrrrr")
