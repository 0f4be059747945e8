"""The lives of a stored step's tensors under a memory budget: the mountain of live bytes, and a bar a tensor."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence

from ..page.canvas import DIGIT, Canvas, key
from ..page.figures import Drawing
from ..page.tables import Table
from ..page.units import unit_of, with_unit
from .joint_graphs import StoredGraph, stored_graphs
from .lifetimes import Life, LivedStep, lived

KINDS = {
    "activation": ("blue", "kept for the backward"),
    "recomputed": ("orange", "made again by the backward"),
    "temporary": ("grey", "temporary"),
    "gradient": ("vermillion", "gradient of a parameter"),
}
"""Each kind of buffer: its colour, and what it is called here. From the ground of the mountain upwards."""

LEFT, WIDE, HIGH, TOP = 46, 944, 190, 30
ROW, BAR, LETTER = 25, 21, 15
BARS = 14
CEILINGS = tuple(end * 10.0**power for power in range(3, 12) for end in (1, 1.5, 2, 3, 4, 5, 6, 8))
"""Where an axis of bytes may end: few places, so that one scale serves all budgets of a model."""


@functools.lru_cache(maxsize=64)
def _lived(model: str, budget: float) -> LivedStep:
    return lived(stored_graphs()[model], budget)


def budgeted(model: str, budget: float) -> list[str | Drawing]:
    """What a memory budget from 0 to 1 saves and makes again in one step of a stored model, and what it peaks at.

    Raises ValueError for a budget out of range.
    """
    step, plain, none = (_lived(model, each) for each in (budget, 1, 0))
    ceiling = ceiling_over(*(each.peak_nbytes for each in (step, plain, none)))
    operations = max(len(each.live) for each in (step, plain, none))
    return [_told(step, plain), lives(step, ceiling_nbytes=ceiling, operations=operations)]


def ceiling_over(*nbytes: int) -> float:
    """Where an axis may end that has to hold so many bytes, with a little room above."""
    return next(end for end in CEILINGS if end >= 1.05 * max(nbytes))


def _told(step: LivedStep, plain: LivedStep) -> str:
    more, work = step.again - plain.again, sum(step.graph.flops.values())
    waits = f"At budget {step.budget:g}, **{with_unit(step.held_nbytes)}** wait for the backward"
    peak = f"The peak is **{with_unit(step.peak_nbytes)}**"
    if step.budget == 1:
        return f"{waits}, and {step.again} operations run twice, none of them a matmul. {peak}."
    again = f"{more} more operations run twice" if more else "as many operations run twice as at 1"
    if step.flops_again:
        again += f", among them {100 * step.flops_again / work:.0f} % of the forward's matmul FLOPs"
    change = 100 * (step.peak_nbytes / plain.peak_nbytes - 1)
    against = f"{abs(change):.0f} % {'more' if change > 0 else 'less'} than at 1" if abs(change) >= 0.5 else "as at 1"
    return f"{waits}, where it is {with_unit(plain.held_nbytes)} at 1; {again}. {peak}, {against}."


def lives(
    step: LivedStep,
    caption: str = "",
    *,
    ceiling_nbytes: float | None = None,
    operations: int | None = None,
    most: int = BARS,
    provenance: object = None,
) -> Drawing:
    """The bytes alive at each operation, by kind; under them a bar for each of the ``most`` largest buffers.

    A bar says which operation and line made it and how large it is; it is pale if it is not alive at the peak.
    ``ceiling_nbytes`` and ``operations`` end the axes, so that drawings compare. Raises ValueError for ends that leave
    out a part of the step.
    """
    ceiling, count = ceiling_nbytes or ceiling_over(step.peak_nbytes), operations or len(step.live)
    if ceiling < step.peak_nbytes or count < len(step.live):
        raise ValueError(
            f"ceiling_nbytes={ceiling:g}, operations={count}: this step has {step.peak_nbytes:,} bytes at its peak and "
            f"{len(step.live)} operations; let the axes end later"
        )
    canvas, scale = Canvas(), WIDE / count
    _mountain(canvas, step, scale, ceiling)
    ground = TOP + HIGH
    rows = _largest(step, most)
    bottom = ground + 56 + ROW * len(rows)
    for at, buffer in enumerate(rows):
        _bar(canvas, step, buffer, scale, ground + 52 + at * ROW)
    where = LEFT + (step.peak_at + 0.5) * scale
    canvas.line([(where, TOP - 14), (where, bottom)], dashed=True)
    late = where > 600
    said = f"peak {with_unit(step.peak_nbytes)}"
    canvas.words(where + (-9 if late else 9), TOP - 2, said, bold=True, anchor="end" if late else "start")
    inside = step.alive(step.peak_at)
    parts = _parts(inside)
    alt = (
        f"{len(step.buffers)} buffers over {len(step.live)} operations. {with_unit(step.held_nbytes)} are alive "
        f"between the passes, and {with_unit(step.peak_nbytes)} at the peak: {parts}."
    )
    caption = f"{caption} In the peak lie: {parts}.".strip()
    return Drawing(canvas.svg(), alt, caption, _table(step, inside), provenance, _legend(step))


def _parts(inside: Sequence[Life]) -> str:
    sums = {kind: sum(each.nbytes for each in inside if each.kind == kind) for kind in KINDS}
    return ", ".join(f"{with_unit(nbytes)} {KINDS[kind][1]}" for kind, nbytes in sums.items() if nbytes)


def _mountain(canvas: Canvas, step: LivedStep, scale: float, ceiling: float) -> None:
    ground, roofs, floor = TOP + HIGH, [], [0] * len(step.live)
    for kind, (colour, name) in KINDS.items():
        change = [0] * (len(step.live) + 1)
        for each in step.buffers:
            if each.kind == kind:
                change[each.birth] += each.nbytes
                change[min(each.death + 1, len(step.live))] -= each.nbytes
        floor = [low + more for low, more in zip(floor, itertools.accumulate(change), strict=False)]
        roofs.append((floor, colour, name))
    end = LEFT + len(step.live) * scale
    for roof, colour, name in reversed(roofs):  # each covers what stands behind it
        canvas.area([(LEFT, ground), *_steps(roof, scale, ground, ceiling), (end, ground)], colour, title=name)
    unit, size = unit_of(ceiling)
    canvas.line([(LEFT, TOP - 14), (LEFT, ground), (LEFT + WIDE, ground)])
    canvas.words(0, TOP - 2, unit)
    for tick in (0.25, 0.5, 0.75, 1):
        y = ground - HIGH * tick
        canvas.line([(LEFT - 6, y), (LEFT, y)])
        if tick < 1:
            canvas.words(LEFT - 9, y + 6, f"{ceiling * tick / size:.3g}", anchor="end", size=LETTER)
    for name, first, last in (("forward", 0, step.forward), ("backward", step.forward, len(step.live))):
        left, right = LEFT + first * scale, LEFT + last * scale
        canvas.line([(left + 3, ground + 10), (right - 3, ground + 10)], thick=1.5)
        canvas.words((left + right) / 2, ground + 34, f"{name}: {last - first} operations", anchor="middle")


def _steps(values: Sequence[int], scale: float, ground: float, ceiling: float) -> list[tuple[float, float]]:
    """The corners of a curve that stays for an operation; those on a straight line left out."""
    corners: list[tuple[float, float]] = []
    for at, value in enumerate(values):
        if at and value == values[at - 1]:
            corners[-1] = (round(LEFT + (at + 1) * scale), corners[-1][1])
            continue
        y = round(ground - HIGH * value / ceiling)
        corners += [(round(LEFT + at * scale), y), (round(LEFT + (at + 1) * scale), y)]
    return corners


def _largest(step: LivedStep, most: int) -> list[Life]:
    """What is largest at the peak, then what is largest at all, in order of birth."""
    seen = [each for each in step.buffers if each.nbytes > 0.002 * step.peak_nbytes]
    alive = [each for each in step.alive(step.peak_at) if each in seen][: most - most // 3]
    others = sorted((each for each in seen if each not in alive), key=lambda each: -each.nbytes)
    return sorted([*alive, *others[: most - len(alive)]], key=lambda each: (each.birth, each.death))


def _bar(canvas: Canvas, step: LivedStep, buffer: Life, scale: float, top: float) -> None:
    left = LEFT + buffer.birth * scale
    right = LEFT + min(buffer.death + 1, len(step.live)) * scale
    words = _name(step.graph, buffer)
    lit = buffer.birth <= step.peak_at <= buffer.death
    canvas.box(left, top, max(right - left, 2), BAR, KINDS[buffer.kind][0], title=words, faint=not lit)
    long, base = len(words) * DIGIT * LETTER, top + 16
    room = {"before": left - 6 - long, "after": 1000 - (right + 6 + long)}
    if room["after"] >= 0:
        canvas.words(right + 6, base, words, size=LETTER)
    elif room["before"] >= 0:
        canvas.words(left - 6, base, words, size=LETTER, anchor="end")
    else:
        dark = lit and buffer.kind != "recomputed"
        canvas.words(left + 8, base, words, size=LETTER, colour="#FFFFFF" if dark else "#000000" if lit else "ink")


def _name(graph: StoredGraph, buffer: Life) -> str:
    name = buffer.name if buffer.kind == "gradient" else _operation(graph, buffer)
    return " · ".join(part for part in (name, graph.place(buffer.node), with_unit(buffer.nbytes)) if part)


def _operation(graph: StoredGraph, buffer: Life) -> str:
    op = graph.nodes[buffer.node].op
    return "loss’s gradient" if op == "tangent" else "attention" if "attention" in op else op


def _table(step: LivedStep, inside: Sequence[Life]) -> Table:
    graph, rows = step.graph, []
    for each in inside[:12]:
        line = graph.nodes[each.node].line
        text = graph.lines[line][2] if line >= 0 else ""
        rows.append(
            (KINDS[each.kind][1], graph.nodes[each.node].op, graph.place(each.node), text, with_unit(each.nbytes))
        )
    if rest := inside[12:]:
        rows.append(("all others", "", "", "", with_unit(sum(each.nbytes for each in rest))))
    return Table(["alive at the peak", "made by", "place", "line", "size"], rows, align="llllr")


def _legend(step: LivedStep) -> str:
    shown = {name: colour for kind, (colour, name) in KINDS.items() if any(each.kind == kind for each in step.buffers)}
    return f"{key(shown)}. Dashed: the peak; a pale bar is not alive there. Each bar: operation · line · bytes."
