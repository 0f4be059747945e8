"""A service in pictures: first requests and those that bring new shapes, phases by mode, and when it has paid."""

import math
from collections.abc import Mapping, Sequence

from compile_lab.inference.served import Served
from compile_lab.inference.service import PHASES, WARM_UP, PhaseCost, Request, RequestPayback, Stream
from compile_lab.modes.cost import Quartiles
from compile_lab.modes.totals_view import COLOURS, SHORT
from compile_lab.page.figures import Drawing
from compile_lab.page.marks import Axis, Row, Segment, dotted, segments, short
from compile_lab.page.tables import Table
from compile_lab.page.units import with_quartiles

FIRST = (1, 2, 3, 10, 100)
"""Requests of the usual shape that are shown; of other shapes, all are."""
SEARCHED = {"max-autotune": "reduce-overhead", "max-autotune-no-cudagraphs": "default"}
"""Modes that search, and the same without a search."""


def latencies(streams: Sequence[Stream] | Mapping[str, Stream], provenance: object | None = None) -> Drawing:
    """How long each of a few requests took, on a logarithmic scale: 1, 2, 3, 10, 100, and all of other shapes.

    Behind each stands in how many modes something was compiled. Streams are of the same requests. ValueError for no
    streams or one without answers.
    """
    streams = list(streams.values()) if isinstance(streams, Mapping) else list(streams)
    if not streams or not all(stream.answers for stream in streams):
        raise ValueError("nothing to draw: give at least one Stream that answered a request")
    longest = max(streams, key=lambda stream: len(stream.answers))
    usual = longest.answers[0].request
    shown = [one for one in longest.answers if one.number in FIRST or one.request != usual]
    rows = []
    for one in shown:
        answers = {stream.mode: stream.answers[one.number - 1] for stream in streams if _has(stream, one.number)}
        compiled = [mode for mode, answer in answers.items() if answer.compilations]
        rows.append(
            Row(
                f"request {one.number}",
                {mode: answer.total_ms for mode, answer in answers.items()},
                after=f"{len(compiled)} modes compile" if len(compiled) > 1 else "1 mode compiles" if compiled else "",
                group=_shape(one.request),
            )
        )
    slow = max(streams, key=lambda stream: stream.answers[0].total_ms)
    quick = min(streams, key=lambda stream: stream.answers[0].total_ms)
    return dotted(
        rows,
        Axis("a request", "ms", log=True),
        title="Request 1 takes " + " and ".join(dict.fromkeys(_first(stream) for stream in (quick, slow))) + ".",
        caption="A request is its prompt and all its new tokens, in a service that has just been started",
        colours=COLOURS,
        provenance=provenance,
        table=_answers(streams, shown),
    )


def _first(stream: Stream) -> str:
    return f"{short(stream.answers[0].total_ms)} ms in {stream.mode}"


def _has(stream: Stream, at: int) -> bool:
    return len(stream.answers) >= at


def _shape(request: Request) -> str:
    return f"batch {request.batch}, {request.prompt} tokens"


def _answers(streams: Sequence[Stream], columns: Sequence) -> Table:
    rows = []
    for one in columns:
        for stream in streams:
            if _has(stream, one.number):
                found = stream.answers[one.number - 1]
                times = [round(value, 2) for value in (found.prefill_ms, found.decode_ms)]
                rows.append([one.number, _shape(one.request), stream.mode, *times, found.compilations])
    return Table(["request", "shape", "mode", "prefill, ms", "decode, ms", "graphs compiled"], rows)


def phases(costs: Sequence[PhaseCost], phase: str, provenance: object | None = None) -> Drawing:
    """Milliseconds of one phase, "prefill" or "decode", by shape and mode; what came to no end is named in the caption.

    ValueError for another phase, or if nothing of it was measured.
    """
    if phase not in PHASES:
        raise ValueError(f"unknown phase {phase!r}; the phases are {', '.join(PHASES)}")
    found = [cost for cost in costs if cost.phase == phase]
    done = [(c, c.call) for c in sorted(found, key=lambda c: (c.request.batch, c.request.prompt)) if c.call]
    if not done:
        raise ValueError(f"nothing to draw: no {phase} was measured")
    rows = [
        Row(place, {m: t.median_ms for m, t in by.items()}, spreads={m: (t.low_ms, t.high_ms) for m, t in by.items()})
        for place, by in _by_place(done).items()
    ]
    best, least = min(done, key=lambda each: each[1].median_ms)
    missing = [f"{_place(cost)}, {cost.mode}: {cost.stopped}" for cost in found if cost.stopped]
    listed = [
        (
            _place(cost),
            cost.mode,
            with_quartiles(call.median_ms, call.low_ms, call.high_ms),
            cost.tokens_per_s and round(cost.tokens_per_s),
            cost.first_s and round(cost.first_s, 2),
            cost.compilations,
        )
        for cost, call in done
    ]
    columns = ["shape", "mode", "ms (quartiles)", "tokens/s", "first 3 calls, s more than settled", "graphs compiled"]
    return dotted(
        rows,
        Axis("one prefill" if phase == "prefill" else "one new token for each sequence", "ms", log=True),
        title=f"The fastest {phase} takes {short(least.median_ms)} ms: {_place(best)}, {best.mode}.",
        caption="; ".join(missing),
        colours=COLOURS,
        provenance=provenance,
        table=Table(columns, listed),
    )


def _by_place(done: Sequence[tuple[PhaseCost, Quartiles]]) -> dict[str, dict[str, Quartiles]]:
    found: dict[str, dict[str, Quartiles]] = {}
    for cost, call in done:
        found.setdefault(_place(cost), {})[cost.mode] = call
    return found


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
    last = 10.0 ** math.ceil(math.log10(max(10, *(each.high or each.requests or 1 for each in found))))
    shown, until = [], 10 * last
    for each in found:
        parts = [] if each.low is None else [Segment(each.mode, (each.high or until) - each.low, each.low, words="")]
        marks = {} if each.requests is None else {"median": each.requests}
        name = f"{SHORT.get(each.mode, each.mode)} against {each.against}"
        shown.append(Row(name, parts, after=_interval(each), marks=marks))
    rows = [
        (each.mode, each.against, round(each.invested_s, 2), round(each.saved_ms, 3), _interval(each)) for each in found
    ]
    columns = ["mode", "against", "invested, s", "saved a request, ms", "requests"]
    paying = sum(each.high is not None for each in found)
    return segments(
        shown,
        Axis("requests", log=True, low=1, until=until),
        title=f"{paying} of {len(found)} comparisons are sure to pay, after so many requests.",
        caption=f"{_shape(request)} and {request.new_tokens} new ones; an interval has the quartiles of a request and "
        "the spread of the starts" + ". One up to the end of the axis: the mode may never pay" * (paying < len(found)),
        colours={**COLOURS, "median": "ink"},
        provenance=provenance,
        table=Table(columns, rows),
    )


def _interval(each: RequestPayback) -> str:
    median, low, high = ("never" if n is None else f"{n:,}" for n in (each.requests, each.low, each.high))
    return f"{median} ({low} to {high})"
