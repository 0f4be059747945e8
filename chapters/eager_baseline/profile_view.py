"""What torch's profiler saw of a call, on one axis of time: operators on the host, kernels on the GPU, and the gaps."""

from collections.abc import Sequence

from compile_lab.measure.trace import Trace, TraceEvent
from compile_lab.page.canvas import Canvas, key, round_ticks
from compile_lab.page.figures import Drawing
from compile_lab.page.tables import Table

LEFT, WIDTH = 150, 840
LANE, LEVEL, DEEPEST = 34, 15, 6
"""The height of a lane, of one depth below it, and how many depths are drawn."""
COLOURS = {
    "an operator that Python or autograd calls": "blue",
    "an operator that another one calls": "sky",
    "the GPU computes": "vermillion",
}


def levels(trace: Trace) -> list[list[TraceEvent]]:
    """The operators of the busiest thread by depth: those of level 0 lie in no other, those of level 1 in one."""
    found: list[list[TraceEvent]] = []
    threads = [event.thread for event in trace.operators]
    if not threads:
        return found
    busiest = max(set(threads), key=threads.count)
    open_: list[TraceEvent] = []
    mine = [event for event in trace.operators if event.thread == busiest]
    for event in sorted(mine, key=lambda event: (event.start_us, -event.duration_us)):
        while open_ and open_[-1].end_us <= event.start_us:
            open_.pop()
        if len(open_) == len(found):
            found.append([])
        found[len(open_)].append(event)
        open_.append(event)
    return found


def covered_us(events: Sequence[TraceEvent]) -> float:
    """For how long at least one of the events ran."""
    busy, until = 0.0, 0.0
    for event in sorted(events, key=lambda event: event.start_us):
        busy += max(0.0, event.end_us - max(event.start_us, until))
        until = max(until, event.end_us)
    return busy


def span_us(trace: Trace) -> float:
    """From the begin of the first operator to the end of the last, or of the last kernel.

    Raises ValueError for a trace without an operator, as all that follows.
    """
    _, begin, end = _outer(trace)
    return end - begin


def told(trace: Trace) -> str:
    """In sentences: how long it took, which share of it operators cover, and for how long a GPU computed."""
    outer, begin, end = _outer(trace)
    span = end - begin
    said = (
        f"The call takes {span:,.0f} µs under the profiler. Python calls {len(outer)} operators, which cover "
        f"{covered_us(outer) / span:.0%} of that time; in the gaps between them Python itself runs."
    )
    if trace.kernels:
        said += f" The GPU computes {covered_us(trace.kernels) / span:.0%} of the time."
    return said


def nested(trace: Trace, caption: str = "", provenance: object | None = None) -> Drawing:
    """A lane of the operators that Python calls, below each those that it calls, and a lane of the GPU's kernels if
    there is one. The longest names are written into their boxes; every box has its name and time on hovering.
    """
    outer, begin, end = _outer(trace)
    scale = WIDTH / (end - begin)
    canvas = Canvas(size=17)

    def lane(events: Sequence[TraceEvent], top: float, height: float, colour: str) -> None:
        for event in events:
            name = event.name.removeprefix("aten::")
            wide = max(0.5, event.duration_us * scale - 0.4)
            left = LEFT + (event.start_us - begin) * scale
            words = name if height == LANE else ""
            canvas.box(left, top, wide, height, colour, words, title=f"{name}, {event.duration_us:,.1f} µs")

    blue, sky, red = COLOURS.values()
    canvas.words(0, 22, "Python calls")
    canvas.box(LEFT, 0, WIDTH, LANE, "grey", faint=True)
    lane(outer, 0, LANE, blue)
    deeper = levels(trace)[1 : 1 + DEEPEST]
    top = LANE + 4
    if deeper:
        canvas.words(0, top + LEVEL, "these call")
    for depth, events in enumerate(deeper):
        lane(events, top + depth * LEVEL, LEVEL - 2, sky)
    top += LEVEL * len(deeper) + 8
    if trace.kernels:
        canvas.words(0, top + 22, "the GPU")
        canvas.box(LEFT, top, WIDTH, LANE, "grey", faint=True)
        lane(trace.kernels, top, LANE, red)
        top += LANE + 8
    canvas.axis(LEFT, top, WIDTH, round_ticks(end - begin, "µs"))
    names = list(COLOURS)[: 3 if trace.kernels else 2]
    rows = sorted(_by_name(outer).items(), key=lambda row: -row[1][1])
    table = Table(
        ["called by Python", "calls", "µs"],
        [(name, calls, f"{us:,.1f}") for name, (calls, us) in rows],
        align="lrr",
    )
    legend = key({name: COLOURS[name] for name in names})
    return Drawing(canvas.svg(), f"Operators on one axis of time. {told(trace)}", caption, table, provenance, legend)


def _outer(trace: Trace) -> tuple[list[TraceEvent], float, float]:
    found = levels(trace)
    if not found:
        raise ValueError("the trace has no operator: nothing of torch was called while the profiler ran")
    ends = [event.end_us for event in [*found[0], *trace.kernels]]
    return found[0], found[0][0].start_us, max(ends)


def _by_name(events: Sequence[TraceEvent]) -> dict[str, tuple[int, float]]:
    found: dict[str, tuple[int, float]] = {}
    for event in events:
        calls, us = found.get(event.name, (0, 0.0))
        found[event.name] = calls + 1, us + event.duration_us
    return found
