"""A service in pictures: first requests and those that bring new shapes, phases by mode, and when it has paid."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from compile_lab.inference.served import Served
from compile_lab.inference.service import PHASES, WARM_UP, PhaseCost, Request, RequestPayback, Stream
from compile_lab.modes.totals_view import COLOURS, SHORT
from compile_lab.page.canvas import Canvas, key
from compile_lab.page.figures import Drawing, Figure, Series, bars
from compile_lab.page.tables import Table
from compile_lab.page.units import number, with_quartiles

FIRST = (1, 2, 3, 10, 100)
"""Requests of the usual shape that are shown; of other shapes, all are."""
LEFT, TOP, HEIGHT, RIGHT = 96.0, 58.0, 300.0, 985.0
TICKS = {0.1: "0.1 ms", 1: "1 ms", 10: "10 ms", 100: "0.1 s", 1e3: "1 s", 1e4: "10 s", 1e5: "100 s", 1e6: "1,000 s"}
REQUESTS = {1: "1", 10: "10", 100: "100", 1e3: "1,000", 1e4: "10⁴", 1e5: "10⁵", 1e6: "10⁶", 1e7: "10⁷"}
ROW = 46.0
SEARCHED = {"max-autotune": "reduce-overhead", "max-autotune-no-cudagraphs": "default"}
"""Modes that search, and the same without a search."""


def latencies(streams: Sequence[Stream] | Mapping[str, Stream], provenance: object | None = None) -> Drawing:
    """How long each of a few requests took, on a logarithmic scale: 1, 2, 3, 10, 100, and all of other shapes.

    A diamond is a request for which something was compiled, with the number of graphs in its title. Streams are of the
    same requests. ValueError for no streams or one without answers.
    """
    streams = list(streams.values()) if isinstance(streams, Mapping) else list(streams)
    if not streams or not all(stream.answers for stream in streams):
        raise ValueError("nothing to draw: give at least one Stream that answered a request")
    longest = max(streams, key=lambda stream: len(stream.answers))
    usual = longest.answers[0].request
    columns = [one for one in longest.answers if one.number in FIRST or one.request != usual]
    values = [
        stream.answers[one.number - 1].total_ms for stream in streams for one in columns if _has(stream, one.number)
    ]
    ends = 10 ** math.floor(math.log10(min(values))), 10 ** math.ceil(math.log10(max(values) * 1.05))
    canvas = Canvas(size=18)
    _scale(canvas, ends)
    width = (RIGHT - LEFT) / len(columns)
    request = None
    for index, one in enumerate(columns):
        x = LEFT + (index + 0.5) * width
        canvas.words(x, TOP + HEIGHT + 26, number(one.number), anchor="middle")
        if one.request != request:
            if index:
                edge = LEFT + index * width
                canvas.line([(edge, TOP - 20), (edge, TOP + HEIGHT)], "grey", thick=1.5, dashed=True)
            canvas.words(LEFT + index * width + 6, TOP - 26, _shape(one.request), size=16)
            request = one.request
        for place, stream in enumerate(streams):
            if _has(stream, one.number):
                shift = (place - (len(streams) - 1) / 2) * min(16.0, width / (len(streams) + 1))
                _mark(canvas, x + shift, stream, one.number, ends)
    canvas.words(RIGHT, TOP + HEIGHT + 50, "request", anchor="end")
    legend = key({stream.mode: COLOURS[stream.mode] for stream in streams}) + " &nbsp; ◆ something was compiled"
    caption = "Time of a request, its prompt and all its new tokens, in a service that has just been started"
    return Drawing(canvas.svg(), _told(streams), caption, _answers(streams, columns), provenance, legend)


def _has(stream: Stream, at: int) -> bool:
    return len(stream.answers) >= at


def _shape(request: Request) -> str:
    return f"batch {request.batch}, {request.prompt} tokens"


def _scale(canvas: Canvas, ends: tuple[float, float]) -> None:
    for value, text in TICKS.items():
        if ends[0] <= value <= ends[1]:
            y = _down(value, ends)
            canvas.line([(LEFT, y), (RIGHT, y)], "#8884", thick=1)
            canvas.words(LEFT - 10, y + 6, text, anchor="end")


def _down(value: float, ends: tuple[float, float]) -> float:
    return TOP + HEIGHT * (1 - math.log(value / ends[0]) / math.log(ends[1] / ends[0]))


def _mark(canvas: Canvas, x: float, stream: Stream, at: int, ends: tuple[float, float]) -> None:
    one = stream.answers[at - 1]
    y, colour = _down(one.total_ms, ends), COLOURS[stream.mode]
    title = f"{stream.mode}, request {at}: {number(one.total_ms)} ms"
    if one.compilations:
        canvas.words(x, y + 8, "◆", anchor="middle", size=24, colour=colour)
        title += f", {one.compilations} graphs compiled"
    canvas.box(x - 5, y - 5, 10, 10, "none" if one.compilations else colour, title=title)


def _told(streams: Sequence[Stream]) -> str:
    parts = []
    for stream in streams:
        first = stream.answers[0]
        compiled = " and ".join(map(str, stream.compilations)) or "none"
        settled = stream.settled(first.request)
        then = f", settled {number(settled.median_ms)} ms" if settled else ""
        took = f"request 1 takes {number(first.total_ms)} ms{then}"
        parts.append(f"{stream.mode}: {took}; compiled for request {compiled}")
    return ". ".join(parts) + "."


def _answers(streams: Sequence[Stream], columns: Sequence) -> Table:
    rows = []
    for one in columns:
        for stream in streams:
            if _has(stream, one.number):
                found = stream.answers[one.number - 1]
                times = [round(value, 2) for value in (found.prefill_ms, found.decode_ms)]
                rows.append([one.number, _shape(one.request), stream.mode, *times, found.compilations])
    return Table(["request", "shape", "mode", "prefill, ms", "decode, ms", "graphs compiled"], rows)


def phases(costs: Sequence[PhaseCost], phase: str, provenance: object | None = None) -> Figure:
    """Milliseconds of one phase, "prefill" or "decode", by shape and mode; what came to no end is named in the caption.

    ValueError for another phase, or if nothing of it was measured.
    """
    if phase not in PHASES:
        raise ValueError(f"unknown phase {phase!r}; the phases are {', '.join(PHASES)}")
    found = [cost for cost in costs if cost.phase == phase]
    done = sorted((cost for cost in found if cost.call), key=lambda cost: (cost.request.batch, cost.request.prompt))
    if not done:
        raise ValueError(f"nothing to draw: no {phase} was measured")
    series = []
    for mode in [mode for mode in COLOURS if any(cost.mode == mode for cost in done)]:
        own = [cost for cost in done if cost.mode == mode]
        calls = [cost.call for cost in own]
        times = [[getattr(call, name) for call in calls] for name in ("median_ms", "low_ms", "high_ms")]
        series.append(Series(mode, [_place(cost) for cost in own], *times))
    said = "; ".join(f"{_place(cost)}, {cost.mode}: {number(cost.call.median_ms)} ms" for cost in done)
    caption = "one prefill" if phase == "prefill" else "one decode step: one new token for each sequence"
    missing = [f"{_place(cost)}, {cost.mode}: {cost.stopped}" for cost in found if cost.stopped]
    figure = bars(
        series, value_title="ms", alt=f"{said}.", caption="; ".join([caption, *missing]), provenance=provenance
    )
    rows = [
        [
            _place(cost),
            cost.mode,
            with_quartiles(cost.call.median_ms, cost.call.low_ms, cost.call.high_ms),
            round(cost.tokens_per_s),
            round(cost.first_s, 2),
            cost.compilations,
        ]
        for cost in done
    ]
    columns = ["shape", "mode", "ms (quartiles)", "tokens/s", "first three calls beyond, s", "graphs compiled"]
    return replace(figure, table=Table(columns, rows))


def _place(cost: PhaseCost) -> str:
    batch = f"batch {cost.request.batch}"
    return batch if cost.phase == "decode" else f"{batch}, {cost.request.prompt} tokens"


def paid_back(model: Served, provenance: object | None = None) -> Drawing:
    """After how many requests each mode has earned back its compile time, as an interval on a logarithmic scale.

    Each mode beside eager, and each that searches beside the same without a search, which is what the search must earn.
    ValueError if no two streams answered enough requests of the usual shape.
    """
    request = model.usual
    pairs = [(mode, "eager") for mode in model.streams if mode != "eager"] + list(SEARCHED.items())
    found = [each for mode, other in pairs if (each := model.pays(mode, other))]
    if not found:
        raise ValueError(f"nothing to draw: no two streams answered {WARM_UP + 4} requests of {request}")
    canvas, left, top = Canvas(size=18), 390.0, 12.0
    ends = 1.0, max(10.0, *(10.0 ** math.ceil(math.log10(max(2, each.high or each.requests or 1))) for each in found))

    def across(requests: float) -> float:
        return left + (RIGHT - 70 - left) * math.log(max(requests, 1)) / math.log(ends[1])

    for row, each in enumerate(found):
        y, colour = top + ROW * (row + 0.5), COLOURS[each.mode]
        canvas.words(
            left - 14, y + 6, f"{SHORT.get(each.mode, each.mode)} against {each.against}", anchor="end", size=16
        )
        canvas.line([(left, y), (RIGHT - 70, y)], "#8884", thick=1)
        if each.low is not None:
            end = RIGHT - 70 if each.high is None else across(each.high)
            canvas.line([(across(each.low), y), (end, y)], colour, thick=9)
            if each.high is None:
                canvas.line([(end, y), (end + 34, y)], colour, thick=5, arrow=True)
        if each.requests is not None:
            canvas.box(across(each.requests) - 8, y - 8, 16, 16, colour, title=_interval(each))
            canvas.words(across(each.requests), y - 12, number(each.requests), anchor="middle", size=16)
        else:
            canvas.words(RIGHT - 36, y + 6, "never", size=16)
    share = (math.log(value) / math.log(ends[1]) for value in REQUESTS)
    ticks = [(at, text) for at, text in zip(share, REQUESTS.values(), strict=True) if at <= 1]
    canvas.axis(left, top + ROW * len(found) + 6, RIGHT - 70 - left, ticks, "requests until it has paid")
    alt = ". ".join(f"{each.mode} against {each.against}: {_interval(each)}" for each in found) + "."
    rows = [
        [each.mode, each.against, round(each.invested_s, 2), round(each.saved_ms, 3), _interval(each)] for each in found
    ]
    columns = ["mode", "against", "invested, s", "saved a request, ms", "requests"]
    interval = "the interval has the quartiles of a request and the spread of the starts"
    caption = f"{_shape(request)} and {request.new_tokens} new ones; {interval}"
    return Drawing(canvas.svg(), alt, caption, Table(columns, rows), provenance)


def _interval(each: RequestPayback) -> str:
    median, low, high = ("never" if n is None else f"{n:,}" for n in (each.requests, each.low, each.high))
    return f"{median} ({low} to {high})"
