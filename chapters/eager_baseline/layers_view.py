"""A pass of a model as layers of calls: what Python calls, what the dispatcher makes of it, and what of it is work."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from compile_lab.eager.dispatch import Call, DispatchLog, log
from compile_lab.page.canvas import Canvas
from compile_lab.page.figures import Drawing
from compile_lab.page.tables import Table

LEFT, WIDTH, SIZE = 282, 712, 21
LEVEL = 15
"""Of one depth of the dispatcher's calls: an operator's kernel calls others, which stand below it."""


def layers_of(name: str, fn: Callable[..., Any], *args: Any) -> Drawing:
    """``layers`` of one call of a function or module, which is made here."""
    return layers(log(fn, *args), name)


def layers(found: DispatchLog, name: str) -> Drawing:
    """The calls of a pass in their order, four layers of them, each call above those that it led to.

    ``name`` says what the pass is.
    Raises ValueError for a log without calls.
    """
    if not found.calls:
        raise ValueError("the log has no calls: nothing was called, and nothing can be drawn")
    ends = _ends(found.calls)
    canvas = Canvas(size=SIZE)
    scale = WIDTH / len(found.calls)

    def strip(y: float, height: float, spans: Sequence[tuple[int, int]], colour: str) -> None:
        for start, end in spans:
            wide = max((end - start) * scale - min(1.2, 0.35 * scale), 0.6)
            canvas.box(LEFT + start * scale, y, wide, height, colour)

    parts = _parts(found.calls)
    for part, start, end in parts:
        wide = (end - start) * scale
        canvas.box(LEFT + start * scale, 0, wide - 2, 30, "grey", part, faint=True)
    below = [(at, ends[at]) for at, call in enumerate(found.calls) if call.below_autograd]
    working = [(at, ends[at]) for at, call in enumerate(found.calls) if call.computes]
    deepest = max(call.depth for call in found.calls)
    y = 44
    _counted(canvas, y, found.python_calls, "from Python", "calls of torch")
    strip(y, 52, list(_python_spans(found.calls, ends)), "blue")
    y += 72
    _counted(canvas, y, len(found.calls), "dispatches", "by the dispatcher")
    for depth in range(deepest + 1):
        here = [(at, ends[at]) for at, call in enumerate(found.calls) if call.depth == depth]
        strip(y + LEVEL * depth, LEVEL - 2, here, "grey")
    y += max(LEVEL * (deepest + 1), 52) + 20
    _counted(canvas, y, len(below), "operators", "a compiler sees")
    strip(y, 52, below, "sky")
    y += 72
    _counted(canvas, y, len(working), "write data", "the work itself")
    strip(y, 52, working, "vermillion")
    counts = found.counts()
    alt = (
        f"{name}, as four layers of calls, in order from left to right: {counts['python_calls']} calls of torch by "
        f"Python lead to {counts['dispatches']} calls of the dispatcher; {counts['below_autograd']} of these are "
        f"operators below autograd, and only {counts['computing']} write data."
    )
    rows = [
        ("calls of torch by Python", counts["python_calls"]),
        ("calls of the dispatcher", counts["dispatches"]),
        ("operators below autograd, which a compiler sees", counts["below_autograd"]),
        ("operators that write data", counts["computing"]),
    ]
    caption = f"{name}: every call, counted in this run, in its order; below each call those that it led to."
    return Drawing(canvas.svg(), alt, caption, Table(["what is counted", "calls"], rows))


def _counted(canvas: Canvas, y: float, count: int, *lines: str) -> None:
    canvas.words(78, y + 40, f"{count:,}", anchor="end", size=38, bold=True)
    for index, line in enumerate(lines):
        canvas.words(92, y + 20 + 26 * index, line)


def _ends(calls: Sequence[Call]) -> list[int]:
    """For each call the place after the last call that was made inside it."""
    ends, open_calls = [0] * len(calls), []
    for at, call in enumerate(calls):
        while open_calls and calls[open_calls[-1]].depth >= call.depth:
            ends[open_calls.pop()] = at
        open_calls.append(at)
    for at in open_calls:
        ends[at] = len(calls)
    return ends


def _python_spans(calls: Sequence[Call], ends: Sequence[int]) -> Iterator[tuple[int, int]]:
    """From the first call of the dispatcher that a call by Python led to, until after the last one."""
    spans: dict[int, tuple[int, int]] = {}
    for at, call in enumerate(calls):
        if call.python_call:
            start, end = spans.get(call.python_call, (at, at))
            spans[call.python_call] = (start, max(end, ends[at]))
    yield from spans.values()


def _parts(calls: Sequence[Call]) -> list[tuple[str, int, int]]:
    """The model's parts in the order of their calls: a stack's layer by its number, its first place, the one after."""
    parts: list[tuple[str, int, int]] = []
    for at, call in enumerate(calls):
        first, _, rest = call.module.partition(".")
        number = rest.partition(".")[0]
        name = f"{first.removesuffix('s')} {number}" if number.isdigit() else ""
        if parts and parts[-1][0] == name:
            parts[-1] = (name, parts[-1][1], at + 1)
        else:
            parts.append((name, at, at + 1))
    return parts
