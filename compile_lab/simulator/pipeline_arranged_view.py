"""A schedule that a reader arranges, as it is seen: its blocks on one axis of time, and on each what is not allowed."""

from __future__ import annotations

from collections import Counter

from ..page.canvas import Canvas, key, round_ticks
from ..page.figures import PALETTE, Drawing
from ..page.units import percent
from .pipeline import FORWARD, Action, Order, simulate
from .pipeline_arranged import Fault, faults, held, lean_fault, orders_of, so_far

STARTS = (24, 36, 54, 81, 10**9)
"""Where the axis may end, in forwards: one scale serves most arrangements."""
MOST_BLOCKS = 200
_LEFT, _RIGHT, _ROW, _BAR = 80, 890, 76, 42


def arranged(order: str) -> list[str | Drawing]:
    """A schedule by hand, ``"F0 F1 B0 B1 | F0 B0 F1 B1"``: each rank's blocks. The judge's word, then the picture.

    Raises ValueError for a text that is no such rows, and for more than `MOST_BLOCKS` blocks.
    """
    orders = orders_of(order)
    if (blocks := sum(map(len, orders))) > MOST_BLOCKS:
        raise ValueError(f"{blocks} blocks are more than a picture holds: give at most {MOST_BLOCKS}")
    ranks, microbatches = len(orders), len({m for each in orders for _, _, m in each})
    wrong, told = lean_fault(orders, ranks, microbatches), faults(orders, min(ranks, microbatches))
    limit = simulate("GPipe", ranks, microbatches).span
    done = so_far(orders)
    verdict = f"**Not yet:** {wrong}" if wrong else "**✓ Right.** No rank holds too much, and it is as quick as GPipe."
    return [verdict, _numbers(orders, done, limit), _picture(orders, done, told, limit)]


def _numbers(orders: list[Order], done: list[Action], limit: float) -> str:
    each = ", ".join(str(held(order)) for order in orders)
    live = f"Live micro-batches at most, by rank: **{each}** ({min(len(orders), len(orders[0]) // 2)} allowed)."
    if len(done) < sum(map(len, orders)):
        return f"The ranks stand still after {_span(done):g} F. {live}"
    busy, span = sum(action.end - action.start for action in done), _span(done)
    return f"Span **{span:g} F** (GPipe takes {limit:g}); bubble **{percent(1 - busy / (len(orders) * span))}**. {live}"


def _span(done: list[Action]) -> float:
    return max((action.end for action in done), default=0)


def _picture(orders: list[Order], done: list[Action], faults: list[Fault], limit: float) -> Drawing:
    times = {action[1:4]: action for action in done}
    finished, waiting = _span(done), Counter(rank for rank, order in enumerate(orders) for _ in order)
    waiting.subtract(action.rank for action in done)
    longest = max(finished + 2 * max(waiting.values()), limit)
    until = next(end for end in STARTS if end >= longest)
    canvas, scale = Canvas(size=18), (_RIGHT - _LEFT) / until
    why = {(fault.rank, fault.at): fault.why for fault in faults}
    for rank, order in enumerate(orders):
        top = _ROW * rank + 34
        canvas.words(0, top + 27, f"rank {rank}")
        canvas.box(_LEFT, top, limit * scale, _BAR, "grey", faint=True, title=f"rank {rank} waits")
        canvas.words(1000, top + 27, f"holds {held(order)}", anchor="end")
        beyond = finished
        for at, (kind, stage, m) in enumerate(order):
            action, length = times.get((kind, stage, m)), 1 if kind == FORWARD else 2
            start = action.start if action else beyond
            beyond += 0 if action else length
            place = f"{kind}{m} on rank {rank}, number {at + 1} of {len(order)}"
            told_of = f"{place}: {f'from {action.start:g} to {action.end:g} F' if action else 'it never begins'}"
            wrong = why.get((rank, at))
            box = (_LEFT + start * scale, top, length * scale - 2, _BAR)
            with canvas.block(rank, at):
                colour = "blue" if kind == FORWARD else "orange"
                title = f"{told_of}. Not allowed: {wrong}." if wrong else f"{told_of}."
                canvas.box(*box, colour, title=title, faint=action is None)
                ink = "ink" if action is None else "#FFFFFF" if colour == "blue" else "#111111"
                canvas.words(box[0] + box[2] / 2, top + 27, f"{kind}{m}", anchor="middle", size=17, colour=ink)
                if wrong:
                    canvas.box(
                        box[0] - 2, top - 3, box[2] + 4, _BAR + 6, PALETTE["vermillion"], dashed=True, title=title
                    )
        if said := next((fault for fault in faults if fault.rank == rank), None):
            canvas.words(_LEFT, top + _BAR + 20, f"✕ {said.why}", colour=PALETTE["vermillion"], bold=True, size=17)
    bottom = _ROW * len(orders) + 34
    canvas.line([(_LEFT + limit * scale, 28), (_LEFT + limit * scale, bottom)], dashed=True)
    canvas.words(_LEFT + limit * scale, 22, f"GPipe ends: {limit:g} F", anchor="middle")
    canvas.axis(_LEFT, bottom, _RIGHT - _LEFT, round_ticks(until, "F"))
    alt = f"{len(orders)} ranks' blocks along the time, until {finished:g} F; the limit is {limit:g}. "
    alt += " ".join(f"Rank {rank}: {' '.join(f'{k}{m}' for k, _, m in order)}." for rank, order in enumerate(orders))
    alt += "".join(f" Not allowed: rank {fault.rank}, {fault.why}." for fault in faults)
    legend = key({"forward": "blue", "backward": "orange", "waits": "grey", "not allowed (dashed)": "vermillion"})
    return Drawing(canvas.svg(), alt, legend=legend)
