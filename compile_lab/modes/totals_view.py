"""What a mode costs and gives in one picture: the time for compiling and so many calls, one line a mode.

Both axes are logarithmic, and the same for every workload. A line starts where compiling costs, and ends where each
call gives; where it crosses eager's, compiling has paid.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from ..page.figures import Drawing
from ..page.marks import Axis, Line, lines
from ..page.units import number
from .cost import MODES, Comparison
from .view import distinct, gain, table

COLOURS = dict(zip(MODES, ("grey", "blue", "orange", "purple", "green"), strict=True))
SHORT = {"max-autotune-no-cudagraphs": "max-autotune-no-cg"}
CALLS = 10, 10_000_000
POINTS = 24
TIMES = Axis("total time ÷ eager's", "×", log=True, low=0.1, until=10, ticks=(0.1, 0.2, 0.5, 1, 2, 5, 10))
SCALES = {"compared with eager": TIMES, "in seconds": Axis("time in all", "s", log=True, low=0.01, until=1e6)}


def totals(comparison: Comparison, start: str = "cold", shown: str = "compared with eager") -> Drawing:
    """Time for compiling and calling together against the number of calls, with break-evens marked.

    ``start`` is "cold" or "warm", ``shown`` one of `SCALES`; ValueError for others.
    """
    if start not in ("cold", "warm") or shown not in SCALES:
        known = ", ".join(map(repr, SCALES))
        raise ValueError(f"start={start!r}, shown={shown!r}: start is 'cold' or 'warm', shown is one of {known}")
    pays = [f"{mode} {_pays(comparison, mode, start)}" for mode in comparison.started(start) if mode != "eager"]
    return _drawn(
        {"": comparison},
        SCALES[shown],
        start,
        title=f"Calls after which compiling has paid: {', '.join(pays)}.",
        caption=f"{comparison.name}: {comparison.what}; compiling {start}; at a line's end, times eager's speed",
        table=table(comparison, start),
    )


def opening(found: Mapping[str, Comparison]) -> Drawing:
    """A small input and a training step: GPT-2 twice, compared with eager; gains are not told."""
    panels = {"One sequence, inference": "GPT-2 inference, batch 1", "A training step": "GPT-2 training"}
    return _drawn(
        {name: found[workload] for name, workload in panels.items()},
        TIMES,
        title="Compiling GPT-2 costs more time than it saves until a mode's line falls below 1×.",
        caption="Compiled from an empty cache; below 1×, compiling has paid",
    )


def panel(comparison: Comparison, start: str, shown: str) -> list[str | Drawing]:
    """What a reader explores: a sentence and the picture; otherwise as `totals`."""
    return [noticed(comparison, start), totals(comparison, start, shown)]


def noticed(comparison: Comparison, start: str = "cold") -> str:
    """One sentence: which mode is best for how many calls."""
    best = [(comparison.named(mode), begin, end) for mode, begin, end in _best(comparison, start)]
    said = [f"**{best[0][0]}** up to {_about(best[0][2])} calls"] if len(best) > 1 else [f"**{best[0][0]}**"]
    said += [f"then **{mode}**" + (f" up to {_about(end)}" if end < CALLS[1] else "") for mode, _, end in best[1:]]
    return f"Least time in all: {', '.join(said)}. A line's start is what compiling costs, its end what a call gives."


def _drawn(
    panels: Mapping[str, Comparison], scale: Axis, start: str = "cold", caption: str = "", **rest: Any
) -> Drawing:
    limited = "; ".join(dict.fromkeys(one.limits for one in panels.values() if one.limits))
    return lines(
        {name: list(_lines(one, start, scale, named="table" in rest)) for name, one in panels.items()},
        Axis("calls", log=True, low=CALLS[0], until=CALLS[1]),
        scale,
        caption=caption + f". max-autotune's search was limited: {limited}" * bool(limited),
        colours={SHORT.get(mode, mode): colour for mode, colour in COLOURS.items()},
        provenance=next(iter(panels.values())).provenance,
        **rest,
    )


def _lines(comparison: Comparison, start: str, scale: Axis, named: bool) -> Iterator[Line]:
    """A line a mode, as far as it is in the picture; a dot where it has paid."""
    places = [CALLS[0] * (CALLS[1] / CALLS[0]) ** (step / POINTS) for step in range(POINTS + 1)]
    low, until = scale.low or 0.0, scale.until or math.inf
    for mode, cost in comparison.started(start).items():
        points = [(calls, _value(comparison, mode, calls, start, scale)) for calls in places]
        paid = _paid(comparison, mode, start) or 0
        ratio = gain(cost, comparison.eager) or ""
        yield Line(
            SHORT.get(mode, mode),
            [point for point in points if low <= point[1] <= until],
            ("≈ eager" if "not" in ratio else ratio) if named and mode != "eager" else "",
            dashed=mode == "max-autotune-no-cudagraphs",
            marked=[(paid, _value(comparison, mode, paid, start, scale))] if CALLS[0] <= paid <= CALLS[1] else [],
        )


def _value(comparison: Comparison, mode: str, calls: float, start: str, scale: Axis) -> float:
    """What the line shows: seconds for compiling and so many calls, or how many times eager's they are."""
    total = comparison.costs[mode].total_s(calls, start)
    return total / comparison.eager.total_s(calls) if scale is TIMES else total


def _paid(comparison: Comparison, mode: str, start: str) -> int | None:
    """After how many calls a mode has paid; None for never, and where its calls are not told apart from eager's."""
    cost = comparison.costs[mode]
    return cost.break_even(comparison.eager, start) if distinct(cost, comparison.eager) else None


def _pays(comparison: Comparison, mode: str, start: str) -> str:
    if not distinct(comparison.costs[mode], comparison.eager):
        return "not told apart from eager"
    paid = _paid(comparison, mode, start)
    return "never" if paid is None else number(paid)


def _best(comparison: Comparison, start: str) -> Iterator[tuple[str, float, float]]:
    """The best mode from so many calls to so many, over all of the scale."""
    first, best = CALLS[0], comparison.best_after(CALLS[0], start)
    for step in range(1, 601):
        calls = CALLS[0] * (CALLS[1] / CALLS[0]) ** (step / 600)
        now = comparison.best_after(round(calls), start)
        if now != best:
            yield best, first, calls
            first, best = calls, now
    yield best, first, CALLS[1]


def _about(calls: float) -> str:
    """A number of calls to two figures."""
    return f"{int(float(f'{calls:.2g}')):,}"
