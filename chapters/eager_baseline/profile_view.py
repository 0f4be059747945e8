"""What torch's profiler saw of a call, on one axis of time: operators on the host, kernels on the GPU, and the gaps."""

from collections.abc import Sequence

from compile_lab.measure.trace import Trace, TraceEvent
from compile_lab.page.figures import Drawing
from compile_lab.page.marks import Axis, Row, Segment, segments
from compile_lab.page.tables import Table
from compile_lab.page.units import percent

DEEPEST = 6
"""How many depths below the operators that Python calls are drawn."""
OPERATOR, GPU = "an operator", "the GPU"


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


def summary(trace: Trace) -> str:
    """In sentences: how long it took, which share of it operators cover, and for how long a GPU computed."""
    outer, begin, end = _outer(trace)
    span = end - begin
    said = (
        f"The call takes {span:,.0f} µs under the profiler. Python calls {len(outer)} operators, which cover "
        f"{percent(covered_us(outer) / span)} of that time; in the gaps between them Python itself runs."
    )
    if trace.kernels:
        said += f" The GPU computes {percent(covered_us(trace.kernels) / span)} of the time."
    return said


def nested(trace: Trace, caption: str = "", provenance: object | None = None) -> Drawing:
    """A lane of the operators that Python calls, below each those that it calls, and a lane of the GPU's kernels if
    there is one. The longest names are written into their segments; each has its name and time on hovering.
    """
    outer, begin, end = _outer(trace)
    lanes = {"Python calls": outer}
    lanes |= {f"depth {depth}": events for depth, events in enumerate(levels(trace)[1 : 1 + DEEPEST], 1)}
    lanes |= {GPU: list(trace.kernels)} if trace.kernels else {}
    rows = []
    for lane, events in lanes.items():
        series = GPU if lane == GPU else OPERATOR
        parts = [_segment(series, event, begin) for event in events]
        rows.append(Row(lane, parts, after="", thin=lane.startswith("depth")))
    title = f"Operators cover {percent(covered_us(outer) / (end - begin))} of the call"
    if trace.kernels:
        title += f", and the GPU computes {percent(covered_us(trace.kernels) / (end - begin))} of it"
    named = sorted(_by_name(outer).items(), key=lambda row: -row[1][1])
    table = Table(
        ["called by Python", "calls", "µs"],
        [(name, calls, f"{us:,.1f}") for name, (calls, us) in named],
        align="lrr",
    )
    axis = Axis("time under the profiler", "µs")
    colours = {OPERATOR: "blue", GPU: "vermillion"} if trace.kernels else None
    return segments(rows, axis, title=f"{title}.", caption=caption, colours=colours, provenance=provenance, table=table)


def _segment(series: str, event: TraceEvent, begin: float) -> Segment:
    name = event.name.removeprefix("aten::")
    start = max(0.0, event.start_us - begin)
    return Segment(series, event.duration_us, start, name, f"{name}, {event.duration_us:,.1f} µs")


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
