"""Pipelines as a reader sees them: each rank's work along the time, and the bubbles between."""

from __future__ import annotations

import html
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from ..page.canvas import Canvas, key, round_ticks
from ..page.figures import PALETTE, Drawing
from ..page.tables import Table
from ..page.units import number, percent
from .pipeline import BACKWARD, FORWARD, INPUT_GRAD, WEIGHT_GRAD, Action, Timeline, simulate

STYLES: dict[str, tuple[str, str, int, str]] = {
    FORWARD: (PALETTE["blue"], "#86BEDD", 40, "forward"),
    BACKWARD: (PALETTE["orange"], "#F3D48B", 34, "backward"),
    INPUT_GRAD: (PALETTE["vermillion"], "#EDB388", 27, "gradient of the input"),
    WEIGHT_GRAD: (PALETTE["green"], "#86D0BC", 20, "gradient of the weights"),
}
"""Each kind of action: colour, a paler one for a rank's second stage, height (which tells them apart too), name."""

# In units of the drawing, which is as wide as the page.
_WIDTH, _GUTTER, _ROW, _BAR, _TITLE = 1000, 100, 46, 40, 30
_AXIS, _MARGIN, _TICKS = 60, 20, 6
_DIGIT = 9
_ORDER_UP_TO = 16
"""Actions of a rank that a table still lists one by one."""


def bubbles(
    timelines: Timeline | Mapping[str, Timeline],
    caption: str = "",
    *,
    unit: str = "",
    provenance: object | None = None,
    waits: Callable[[Timeline], Iterable[tuple[int, float, float]]] | None = None,
    until: float | None = None,
    table: bool = True,
) -> Drawing:
    """The bubble plot: a row for each rank, a bar for each action with its micro-batch, grey where the rank waits.

    Several timelines by name stand one under the other on one scale of time, so that the shorter is the quicker.
    ``unit`` is the unit of their times. ``waits`` gives (rank, start, end) of what is to be marked by a line under the
    bars, as ``pipeline_receives.waiting`` does. With ``until`` an axis of time is drawn that ends there, so that
    drawings compare; without a ``table``, the drawing has only its words. Raises ValueError without a timeline, and for
    one that does not end before ``until``.
    """
    several = {"": timelines} if isinstance(timelines, Timeline) else dict(timelines)
    if not several:
        raise ValueError("nothing to draw: give at least one Timeline")
    span = max(each.span for each in several.values())
    if until is not None and until < span:
        raise ValueError(f"until={until}: the longest of these timelines takes {span:g}; let the axis end later")
    scale = (_WIDTH - _GUTTER - (_MARGIN if until else 0)) / (until or span)
    parts, top = [], 0
    for name, each in several.items():
        if name:
            parts.append(f'<text x="0" y="{top + 20}" font-weight="600">{html.escape(name)}</text>')
            top += _TITLE
        parts += _rows(each, top, scale)
        parts += _marks(each, top, scale, list(waits(each))) if waits else []
        top += _ROW * each.ranks
    if until is not None:
        parts.append(_axis(top, until, unit, scale))
        top += _AXIS
    svg = (
        f'<svg viewBox="0 0 {_WIDTH} {top}" font-size="17" fill="currentColor" xmlns="http://www.w3.org/2000/svg">'
        f"{''.join(parts)}</svg>"
    ).replace('"', "'")  # an explorer's JSON escapes each ", and the notebook's JSON once more
    alt = " ".join(
        _alt(each) if name in ("", each.schedule) else f"{name}: {_alt(each)}" for name, each in several.items()
    )
    rows = (by_rank(timelines) if isinstance(timelines, Timeline) else compared(several)) if table else None
    legend = _legend(several.values(), _length(span, unit))
    if waits:
        legend += " Line under the bars: a receive was posted, and waits."
    return Drawing(svg, alt, caption, rows, provenance, legend)


def by_rank(timeline: Timeline) -> Table:
    """For each rank: when it begins and ends, for which share of the span it waits, what it holds, its actions."""
    begin = min(action.start for action in timeline.actions)
    rows = []
    for rank, busy in enumerate(timeline.busy):
        own = timeline.of(rank)
        waits = percent(1 - busy / timeline.span, 1)
        listed = " ".join(map(str, own)) if len(own) <= _ORDER_UP_TO else f"{len(own)} actions"
        times = (float(own[0].start - begin), float(own[-1].end - begin))
        rows.append((rank, *times, waits, timeline.held_microbatches[rank], listed))
    heads = ["rank", "begins", "ends", "waits", "holds at most, micro-batches", "in order: stage, kind, micro-batch"]
    return Table(heads, rows)


def compared(several: Mapping[str, Timeline]) -> Table:
    """One row for each timeline: how long it takes, how long its ranks wait, what each holds at most, what they send.

    What a rank holds is counted in micro-batches through all of its layers, so that schedules with one stage on each
    rank and with two can be compared.
    """
    rows = []
    for name, each in several.items():
        least, most = (f"{end(each.held_microbatches):g}" for end in (min, max))
        held = most if least == most else f"{least} to {most}"
        rows.append((name, float(each.span), percent(each.bubble_fraction, 1), held, messages(each)))
    return Table(["schedule", "span", "bubble", "micro-batches held by a rank", "messages"], rows, align="lrrrr")


def messages(timeline: Timeline) -> int:
    """How many tensors ranks send: an activation and a gradient between neighbouring stages that are on two ranks."""
    home = {action.stage: action.rank for action in timeline.actions}
    borders = sum(home[stage] != home[stage + 1] for stage in range(timeline.stages - 1))
    return 2 * borders * timeline.microbatches


# ---- the drawing ---------------------------------------------------------------------------------------------------
def _rows(timeline: Timeline, top: int, scale: float) -> list[str]:
    """A grey band for each rank, one path over it for each kind of bar, and the numbers over those."""
    begin = min(action.start for action in timeline.actions)
    width = round(timeline.span * scale)
    bands = "".join(f"M{_GUTTER} {top + _ROW * rank + _BAR // 2}h{width}" for rank in range(timeline.ranks))
    names = "".join(f'<text x="0" y="{top + _ROW * rank + 27}">rank {rank}</text>' for rank in range(timeline.ranks))
    lines: dict[tuple[str, bool], list[tuple[int, int, int]]] = defaultdict(list)
    labels: dict[bool, list[str]] = {True: [], False: []}
    for rank in range(timeline.ranks):
        own, middle = timeline.of(rank), top + _ROW * rank + _BAR // 2
        first = min(action.stage for action in own)
        bars = [(each, *_ends(each, begin, scale)) for each in own]
        for each, left, right in bars:
            lines[each.kind, each.stage != first].append((left, right, middle))
        for dark in labels:
            inside = [bar for bar in bars if (bar[0].kind == FORWARD and bar[0].stage == first) is dark]
            labels[dark].append(_numbers(inside, middle + 6))
    paths = [_path(STYLES[kind][:2][later], STYLES[kind][2], bars) for (kind, later), bars in sorted(lines.items())]
    texts = [
        f'<g font-size="15" text-anchor="middle" fill="{fill}">{"".join(labels[dark])}</g>'
        for dark, fill in ((True, "#fff"), (False, "#111"))
        if any(labels[dark])
    ]
    grey = f'<path d="{bands}" stroke="currentColor" stroke-opacity=".17" stroke-width="{_BAR}"/>'
    return [grey, names, *paths, *texts]


def _axis(top: int, until: float, unit: str, scale: float) -> str:
    """The axis of time under all rows: a tick at each sixth, with its number, the last with the unit."""
    places = [(round(_GUTTER + until * scale * at / _TICKS), until * at / _TICKS) for at in range(_TICKS + 1)]
    ticks = "".join(f"M{x} {top + 4}v8" for x, _ in places)
    *most, (end, _) = [(x, f'<text x="{x}" y="{top + 40}">{number(time)}</text>') for x, time in places]
    last = f'<text x="{end + _MARGIN}" y="{top + 40}" text-anchor="end">{number(until)} {unit}</text>'
    line = f"M{_GUTTER} {top + 4}h{places[-1][0] - _GUTTER}{ticks}"
    drawn = f'<path d="{line}" fill="none" stroke="currentColor" stroke-width="2"/>'
    return f'{drawn}<g text-anchor="middle">{"".join(text for _, text in most)}</g>{last}'


def _marks(timeline: Timeline, top: int, scale: float, waits: list[tuple[int, float, float]]) -> list[str]:
    begin = min(action.start for action in timeline.actions)
    lines = [
        (round(_GUTTER + (start - begin) * scale), round(_GUTTER + (end - begin) * scale), rank)
        for rank, start, end in waits
    ]
    drawn = "".join(
        f"M{left} {top + _ROW * rank + _BAR + 3}h{right - left}" for left, right, rank in lines if right > left + 1
    )
    return [f'<path d="{drawn}" stroke="currentColor" stroke-width="4"/>'] if drawn else []


def _ends(action: Action, begin: float, scale: float) -> tuple[int, int]:
    return round(_GUTTER + (action.start - begin) * scale), round(_GUTTER + (action.end - begin) * scale)


def _path(colour: str, height: int, bars: Iterable[tuple[int, int, int]]) -> str:
    """Bars as strokes of one path, which takes few bytes. Each is a unit shorter than its time, to part neighbours."""
    drawn: list[str] = []
    x = y = 0
    for left, right, middle in bars:
        length = max(1, right - left - 1)
        move = f"m{left - x} {middle - y}" if drawn else f"M{left} {middle}"
        drawn.append(f"{move}h{length}")
        x, y = left + length, middle
    return f'<path d="{"".join(drawn)}" stroke="{colour}" stroke-width="{height}"/>'


def _numbers(bars: Iterable[tuple[Action, int, int]], baseline: int) -> str:
    """The micro-batches' numbers in the bars that have room for them: one text, with a place for each digit."""
    digits, places = [], []
    for action, left, right in bars:
        text = str(action.microbatch)
        if right - left < _DIGIT * len(text) + 3:
            continue
        for at, digit in enumerate(text):
            digits.append(digit)
            places.append(str(round((left + right - 1 + _DIGIT * (2 * at - len(text) + 1)) / 2)))
    return f'<text y="{baseline}" x="{" ".join(places)}">{"".join(digits)}</text>' if digits else ""


def _legend(several: Iterable[Timeline], length: str) -> str:
    kinds = {action.kind for each in several for action in each.actions}
    looped = any(each.stages > each.ranks for each in several)
    square = '<span style="display:inline-block;width:.9em;height:.9em;background:{}"></span> {}'
    kinds_shown = [square.format(colour, name) for kind, (colour, _, _, name) in STYLES.items() if kind in kinds]
    paler = "; paler: the rank's second stage" if looped else ""
    return f"{' &nbsp; '.join(kinds_shown)}{paler}. Grey: the rank waits. Time runs to the right, {length} in all."


def _length(span: float, unit: str) -> str:
    return f"{number(float(span))} {unit}".strip() if unit else f"{number(float(span))} units"


def _alt(timeline: Timeline) -> str:
    waits = [1 - busy / timeline.span for busy in timeline.busy]
    spread = f"{100 * min(waits):.0f} to {100 * max(waits):.0f} %" if max(waits) > min(waits) + 0.005 else None
    return f"{timeline}. Each rank waits {spread or f'{100 * waits[0]:.0f} %'} of the time."


# ---- at a glance: time and memory of the same work in several orders -------------------------------------------------
_LEFT, _UNTIL, _HELD, _EDGE, _LINE = 66, 735, 775, 985, 30


def overview(several: Mapping[str, Timeline], caption: str = "", *, unit: str = "") -> Drawing:
    """The same work in several orders, on one axis of time, each with its waiting, and beside it what a rank holds.

    A square is a micro-batch's activations through all of a rank's layers; as many places are drawn as there are
    micro-batches. Raises ValueError for no timeline, and for timelines of unlike numbers of micro-batches.
    """
    if len(sizes := {each.microbatches for each in several.values()}) != 1:
        raise ValueError(f"the timelines have {sorted(sizes) or 'no'} micro-batches: give the same work to each")
    (count,), span = sizes, max(each.span for each in several.values())
    canvas, scale, top = Canvas(size=18), (_UNTIL - _LEFT) / span, 0.0
    square = min(22.0, (_EDGE - _HELD) / count - 3)
    for name, each in several.items():
        begin = min(action.start for action in each.actions)
        canvas.words(_LEFT, top + 20, name, size=22, bold=True)
        canvas.words(_UNTIL, top + 20, f"waits {percent(each.bubble_fraction)}", anchor="end", size=22)
        canvas.words(_EDGE, top + 20, f"holds up to {max(each.held_microbatches):g}", anchor="end", size=22)
        top += 30
        for rank in range(each.ranks):
            own, held = each.of(rank), each.held_microbatches[rank]
            canvas.words(0, top + 20, f"rank {rank}", size=17)
            canvas.box(_LEFT, top, each.span * scale, _LINE - 4, "grey", faint=True, title=f"rank {rank} waits")
            first = min(action.stage for action in own)
            for action in own:
                left, width = _LEFT + (action.start - begin) * scale, (action.end - action.start) * scale
                colour = STYLES[action.kind][:2][action.stage != first]
                canvas.box(left, top, width - 1, _LINE - 4, colour, title=f"{action}: {STYLES[action.kind][3]}")
                if _DIGIT * len(str(action.microbatch)) + 5 <= width:
                    ink = "#FFFFFF" if colour == PALETTE["blue"] else "#111111"
                    middle = left + (width - 1) / 2
                    canvas.words(middle, top + 18, str(action.microbatch), anchor="middle", size=15, colour=ink)
            for at in range(count):
                place = (_HELD + at * (square + 3), top + 2, square, _LINE - 8)
                canvas.box(*place, "purple", dashed=at >= held, title=f"rank {rank} holds up to {held:g}")
            top += _LINE
        top += 12
    canvas.axis(_LEFT, top - 4, _UNTIL - _LEFT, round_ticks(float(span), unit))
    kinds = {action.kind for each in several.values() for action in each.actions}
    legend = key({STYLES[kind][3]: STYLES[kind][0] for kind in STYLES if kind in kinds} | {"waits": "grey"})
    looped = any(each.stages > each.ranks for each in several.values())
    legend += ("; paler: the rank's second stage" if looped else "") + ". Purple: a micro-batch that a rank holds."
    return Drawing(canvas.svg(), f"{' '.join(map(_alt, several.values()))}", caption, compared(several), None, legend)


def opening() -> Drawing:
    """Chapter 12 at a glance: eight micro-batches on four ranks as GPipe and as ZBV, a backward twice a forward."""
    stages = {"GPipe": 4, "ZBVZeroBubble": 8}
    several = {}
    for name, count in stages.items():
        part = 4 / count  # of a rank's layers, in a stage
        several[name] = simulate(name, count, 8, forward=part, input_grad=part, weight_grad=part)
    caption = "Eight micro-batches on four ranks, simulated. F is the forward of a rank's layers for one micro-batch"
    drawn = overview(several, f"{caption}; a backward takes 2 F", unit="F")
    waits = " and ".join(f"{name} waits {percent(each.bubble_fraction)}" for name, each in several.items())
    held = " and ".join(f"{max(each.held_microbatches):g}" for each in several.values())
    alt = f"The same work on four ranks in two orders, on one axis of time: {waits} of it; a rank holds up to {held}"
    return replace(drawn, alt=f"{alt} micro-batches.", table=None)
