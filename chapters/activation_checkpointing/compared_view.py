"""Strategies drawn: what each keeps and makes again, its peak and its time, and in which blocks something is saved."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence

from compile_lab.checkpointing.cost import Cost
from compile_lab.doors import check_whole, door
from compile_lab.page import marks
from compile_lab.page.figures import Drawing
from compile_lab.page.marks import Axis, Line, Row, Segment
from compile_lab.page.tables import Table
from compile_lab.page.units import DECIMAL, unit_of, with_unit

from . import view

HELD, ON_TOP, PEAK, TIME = "held after the forward", "on top of it at the peak", "peak", "time of a step"
SAVED, PREDICTED, WITHOUT = "something large is saved", "saved, predicted", "nothing large is saved"
COLOURS = {HELD: "blue", PEAK: "vermillion", TIME: "grey", ON_TOP: "orange", SAVED: "green", WITHOUT: "orange"}
COLOURS |= {PREDICTED: "green"}
UNITS = {unit: DECIMAL[unit] for unit in ("GB", "MB")}
ROWS = {
    "none": "Everything is kept",
    "every layer": "Each block keeps its input",
    "segments of 24": "One input is kept for all",
}
"""The strategies of the opening picture, by their names in the recording."""


@door
def kept_or_again(costs: Mapping[str, Cost], provenance: object = None) -> Drawing:
    """What three strategies hold after the forward, what comes on top of it at the peak, and the work that they add.

    Raises KeyError for a strategy that was not run.

    >>> from chapters.activation_checkpointing.compared_view import kept_or_again
    >>> from chapters.activation_checkpointing.experiments.checkpointing import recorded
    >>> from compile_lab import recordings
    >>> kept_or_again(recorded(recordings.load("checkpointing").result)).title
    'The peak is 15.5 GB if all is kept, 2.61 GB with one input a block, 15.4 GB with one input for all.'
    """
    plain, every, whole = shown = [costs[name] for name in ROWS]
    unit, size = unit_of(plain.peak_nbytes, UNITS)
    rows = []
    for cost, words in zip(shown, ROWS.values(), strict=True):
        parts = {HELD: cost.held_nbytes / size, ON_TOP: (cost.peak_nbytes - cost.held_nbytes) / size}
        work = f" · +{more} % work" if (more := round(100 * (cost.flops / plain.flops - 1))) else ""
        rows.append(Row(words, parts, f"{with_unit(cost.peak_nbytes)}{work} · {cost.time_ms:.0f} ms"))
    early = [ROWS[each.strategy.name] for each in shown[1:] if (each.forward_peak_nbytes or 0) >= each.peak_nbytes]
    cells = [
        (each.strategy.name, *map(with_unit, (each.held_nbytes, each.peak_nbytes)),
         f"{each.flops / 1e12:.1f}", f"{each.time_ms:.0f}")
        for each in shown
    ]  # fmt: skip
    return marks.segments(
        rows,
        Axis("at the peak", unit),
        title=f"The peak is {with_unit(plain.peak_nbytes)} if all is kept, {with_unit(every.peak_nbytes)} with one "
        f"input a block, {with_unit(whole.peak_nbytes)} with one input for all.",
        caption=f"{early[0]}: the peak is in the forward." if early else "",
        colours=COLOURS,
        provenance=provenance,
        table=Table(["strategy", "held", "peak", "TFLOP", "time, ms"], cells, align="lrrrr"),
    )


@door
def tradeoff(costs: Iterable[Cost], caption: str = "", provenance: object = None) -> Drawing:
    """Peak and time of each strategy in parts of the first one's, the time with its quartiles.

    Raises ValueError where there is nothing to draw.

    >>> from chapters.activation_checkpointing.compared_view import tradeoff
    >>> from chapters.activation_checkpointing.experiments.checkpointing import recorded
    >>> from compile_lab import recordings
    >>> costs = recorded(recordings.load("checkpointing").result)
    >>> tradeoff([costs["none"], costs["every layer"]]).title
    '“every layer” has the lowest peak, 17 % of that of “none”, and its step takes 123 % of the time.'
    """
    costs = list(costs)
    if not costs:
        raise ValueError("nothing to draw: give at least one Cost")
    first, least = costs[0], min(costs, key=lambda each: each.peak_nbytes)
    per_cent = 100 / first.time_ms
    rows = [
        Row(
            each.strategy.name,
            {PEAK: 100 * each.peak_nbytes / first.peak_nbytes, TIME: per_cent * each.time_ms},
            f"{with_unit(each.peak_nbytes)}, {marks.short(each.time_ms)} ms",
            spreads={TIME: (per_cent * each.low_ms, per_cent * each.high_ms)},
        )
        for each in costs
    ]
    apart = least.low_ms > first.high_ms or least.high_ms < first.low_ms
    name, peak = first.strategy.name, 100 * least.peak_nbytes / first.peak_nbytes
    takes = f"step takes {per_cent * least.time_ms:.0f} % of the time"
    time = takes if apart else f"time is not told apart from that of “{name}”"
    return marks.dotted(
        rows,
        Axis(f"share of “{name}”", "%"),
        title=f"“{least.strategy.name}” has the lowest peak, {peak:.0f} % of that of “{name}”, and its {time}.",
        caption=caption,
        colours=COLOURS,
        provenance=provenance,
        table=view.costs(costs),
    )


@door
def saved_grid(saved: Mapping[float, Sequence[int]], blocks: int) -> Drawing:
    """A row a budget, a segment a block: where something large is saved, and the longest stretch without.

    Raises ValueError for a block that is not there.

    >>> from chapters.activation_checkpointing.compared_view import saved_grid
    >>> saved_grid({1.0: range(6), 0.5: [0, 4]}, blocks=6).title
    'Budget 0.5 saves something large in 2 of 6 blocks, and leaves 3 in a row without.'
    """
    check_whole("blocks", blocks)
    rows, runs = [], {}
    for budget, kept in saved.items():
        for block in kept:
            check_whole("a block", block, 0, blocks - 1)
        start, length = runs[budget] = _longest(kept, blocks)
        pale = {*range(blocks)} - {*kept, *range(start, start + length)}
        names = [SAVED if at in kept else WITHOUT for at in range(blocks)]
        parts = [Segment(name, 1, words="", title=f"block {at}", faint=at in pale) for at, name in enumerate(names)]
        rows.append(Row(f"budget {budget:g}", parts, f"{length} without"))
    budget, (_, most) = max(runs.items(), key=lambda item: (0 < len(saved[item[0]]) < blocks, item[1][1]))
    return marks.segments(
        rows,
        Axis("block", until=blocks, ticks=range(0, blocks + 1, 2)),
        title=f"Budget {budget:g} saves something large in {len(saved[budget])} of {blocks} blocks, and leaves {most} "
        "in a row without.",
        caption="Strong orange is the longest stretch without.",
        colours=COLOURS,
    )


def _longest(kept: Sequence[int], blocks: int) -> tuple[int, int]:
    """Where the longest stretch of blocks that save nothing begins, and its length."""
    ends = [-1, *sorted(kept), blocks]
    return max(((one + 1, two - one - 1) for one, two in itertools.pairwise(ends)), key=lambda run: run[1])


@door
def curves(costs: Iterable[Cost], caption: str = "", provenance: object | None = None) -> Drawing:
    """Saved bytes, held bytes and the peak over the compiler's memory budget. ValueError without a budget."""
    found = {budget: each for each in costs if (budget := each.strategy.budget) is not None}
    if not found:
        raise ValueError("none of these strategies has a memory budget, so there is nothing to draw over it")
    fields = {PEAK: "peak_nbytes", HELD: "held_nbytes", PREDICTED: "saved_nbytes"}
    points = {budget: found[budget] for budget in sorted(found)}
    least, none = min(points.values(), key=lambda each: each.peak_nbytes), next(iter(points.values()))
    told = f"The peak is least at budget {least.strategy.budget:g}, {with_unit(least.peak_nbytes)}"
    at_none = f"; at {none.strategy.budget:g} it is {with_unit(none.peak_nbytes)}" if none is not least else ""
    return _drawn(points, fields, Axis("memory budget"), f"{told}{at_none}.", caption, provenance)


@door
def segments(costs: Iterable[Cost], caption: str = "", provenance: object | None = None) -> Drawing:
    """Held bytes and the peak over the length of a checkpointed segment, in blocks."""
    plain = [each for each in costs if not each.strategy.keep and not each.strategy.compiled]
    found = {every: each for each in plain if (every := each.strategy.every)}
    several: dict[float, Cost] = {every: found[every] for every in sorted(found)}
    least, longest = min(several.values(), key=lambda each: each.peak_nbytes), [*several.values()][-1]
    told = (
        f"The peak is least with segments of {least.strategy.every}, {with_unit(least.peak_nbytes)}; with all blocks "
    )
    axis = Axis("blocks in a segment", log=True, low=min(several), until=max(several), ticks=[*several])
    fields = {PEAK: "peak_nbytes", HELD: "held_nbytes"}
    return _drawn(several, fields, axis, f"{told}in one it is {with_unit(longest.peak_nbytes)}.", caption, provenance)


def _drawn(
    several: Mapping[float, Cost], fields: Mapping[str, str], x: Axis, title: str, caption: str, provenance: object
) -> Drawing:
    unit, size = unit_of(max(each.peak_nbytes for each in several.values()), UNITS)
    drawn = [
        Line(
            name,
            [(at, getattr(each, field) / size) for at, each in several.items()],
            dashed=name == PREDICTED,
            dots=True,
        )
        for name, field in fields.items()
    ]
    y = Axis("memory on top of the parameters", unit)
    return marks.lines({"": drawn}, x, y, title=title, caption=caption, colours=COLOURS, provenance=provenance)
