"""The lives of a stored step's tensors under a memory budget: the mountain of live bytes, and a bar a tensor."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from ..page import marks
from ..page.canvas import round_end
from ..page.figures import Drawing
from ..page.marks import Axis, Line, Row, Segment
from ..page.tables import Table
from ..page.units import unit_of, with_unit
from .joint_graphs import StoredGraph, stored_graphs
from .lifetimes import Life, LivedStep, lived

KINDS = {
    "activation": "kept for the backward",
    "recomputed": "made again by the backward",
    "temporary": "temporary",
    "gradient": "gradient of a parameter",
}
"""What each kind of buffer is called here. From the ground of the mountain upwards."""
COLOURS = dict(zip(KINDS.values(), ("blue", "orange", "sky", "vermillion"), strict=True))
BARS = 10


class Buffer(Protocol):
    """What lives from its birth to its death, both places in a list of operations."""

    @property
    def nbytes(self) -> int: ...
    @property
    def birth(self) -> int: ...
    @property
    def death(self) -> int: ...


@functools.lru_cache(maxsize=64)
def _lived(model: str, budget: float) -> LivedStep:
    return lived(stored_graphs()[model], budget)


def budgeted(model: str, budget: float) -> list[str | Drawing]:
    """What a memory budget from 0 to 1 saves and makes again in one step of a stored model, and what it peaks at.

    Raises ValueError for a budget out of range.
    """
    step, plain, none = (_lived(model, each) for each in (budget, 1, 0))
    most = max(each.peak_nbytes for each in (step, plain, none))
    until = max(len(each.live) for each in (step, plain, none))
    return [_sentence(step, plain), live_bytes(step, plain, most, until), largest(step, until)]


def _sentence(step: LivedStep, plain: LivedStep) -> str:
    more, work = step.again - plain.again, sum(step.graph.flops.values())
    waits = f"At budget {step.budget:g}, **{with_unit(step.held_nbytes)}** wait for the backward"
    peak = f"The peak is **{with_unit(step.peak_nbytes)}**"
    if step.budget == 1:
        return f"{waits}, and {step.again} operations run twice, none of them a matmul. {peak}."
    again = f"{more} more operations run twice" if more else "as many operations run twice as at 1"
    if step.flops_again:
        again += f"; the matmuls among them have {100 * step.flops_again / work:.0f} % of the forward's matmul FLOPs"
    change = 100 * (step.peak_nbytes / plain.peak_nbytes - 1)
    against = f"{abs(change):.0f} % {'more' if change > 0 else 'less'} than at 1" if abs(change) >= 0.5 else "as at 1"
    return f"{waits}, where it is {with_unit(plain.held_nbytes)} at 1; {again}. {peak}, {against}."


def live_bytes(step: LivedStep, plain: LivedStep, most_nbytes: int, until: int) -> Drawing:
    """The bytes alive at each operation, by kind; the axes hold so many bytes and operations, so that pictures compare.

    Raises ValueError for axes that do not hold the step.
    """
    inside = step.alive(step.peak_at)
    sums = {kind: sum(each.nbytes for each in inside if each.kind == kind) for kind in KINDS}
    kind = max(sums, key=sums.__getitem__)
    mostly = f"{with_unit(sums[kind])} of it: {KINDS[kind]}"
    where = "forward" if step.peak_at < step.forward else "backward"
    unit, size = unit_of(most_nbytes)
    groups = {name: [each for each in step.buffers if each.kind == kind] for kind, name in KINDS.items()}
    return marks.lines(
        {"": layers(groups, len(step.live), size)},
        Axis(
            f"operation: {step.forward} of the forward, then the backward", until=until, ticks=(0, step.forward, until)
        ),
        Axis("live bytes", unit, until=round_end(most_nbytes / size)),
        title=f"The peak, {with_unit(step.peak_nbytes)}, is in the {where}; {mostly}.",
        colours=COLOURS,
        references={f"the peak at budget {plain.budget:g}": (plain.peak_nbytes / size, "grey")},
        stacked=True,
        table=_table(step, inside),
    )


def layers(groups: Mapping[str, Iterable[Buffer]], count: int, size: float) -> list[Line]:
    """A stepped line a group: its live bytes, in units of `size`, at each of `count` operations."""
    drawn = []
    for name, buffers in groups.items():
        change = [0] * (count + 1)
        for each in buffers:
            change[each.birth] += each.nbytes
            change[min(each.death + 1, count)] -= each.nbytes
        live = [*itertools.accumulate(change[:-1])]
        points = [(at, nbytes / size) for at, nbytes in enumerate([*live, live[-1]])]
        drawn.append(Line(name, points, stepped=True))
    return drawn


def largest(step: LivedStep, until: int) -> Drawing:
    """The largest buffers from birth to death: which operation and line made each, and how large it is."""
    rows, alive = [], 0
    for each in _largest(step):
        here = each.birth <= step.peak_at <= each.death
        alive += here
        length = min(each.death + 1, len(step.live)) - each.birth
        part = Segment(KINDS[each.kind], length, each.birth, words="", faint=not here)
        rows.append(Row(_name(step.graph, each), [part], with_unit(each.nbytes)))
    return marks.segments(
        rows,
        Axis("operation", until=until),
        title=f"Of the {len(rows)} largest buffers {alive} are alive at the peak.",
        caption="From birth to death; a pale one is not alive at the peak.",
        colours=COLOURS,
        references={"the peak": (step.peak_at + 0.5, "grey")},
    )


def _largest(step: LivedStep) -> list[Life]:
    """What is largest at the peak, then what is largest at all, in order of birth."""
    seen = [each for each in step.buffers if each.nbytes > 0.002 * step.peak_nbytes]
    alive = [each for each in step.alive(step.peak_at) if each in seen][: BARS - BARS // 3]
    others = sorted((each for each in seen if each not in alive), key=lambda each: -each.nbytes)
    return sorted([*alive, *others[: BARS - len(alive)]], key=lambda each: (each.birth, each.death))


def _name(graph: StoredGraph, buffer: Life) -> str:
    name = buffer.name if buffer.kind == "gradient" else _operation(graph, buffer)
    return " · ".join(part for part in (name, graph.place(buffer.node)) if part)


def _operation(graph: StoredGraph, buffer: Life) -> str:
    op = graph.nodes[buffer.node].op
    return "loss’s gradient" if op == "tangent" else "attention" if "attention" in op else op


def _table(step: LivedStep, inside: Sequence[Life]) -> Table:
    graph, rows = step.graph, []
    for each in inside[:12]:
        line = graph.nodes[each.node].line
        text = graph.lines[line][2] if line >= 0 else ""
        rows.append((KINDS[each.kind], graph.nodes[each.node].op, graph.place(each.node), text, with_unit(each.nbytes)))
    if rest := inside[12:]:
        rows.append(("all others", "", "", "", with_unit(sum(each.nbytes for each in rest))))
    return Table(["alive at the peak", "made by", "place", "line", "size"], rows, align="llllr")
