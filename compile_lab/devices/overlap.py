"""How much communication is hidden? ``analyse(trace)`` reads it off one rank's torch profiler trace.

Communication is *hidden* while the same rank computes, and *exposed* while it does not: exposed time is what a step
would save on an infinitely fast wire. A collective's time includes waiting for the slowest rank, which `on_the_wire`
takes away, given the traces of all ranks.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch.profiler import profile

from ..doors import door
from ..measure.trace import Trace, TraceEvent, read
from ..simulator.overlap import Overlap, Span, Transfer, merged, overlap_of

GLOO, WIRE = "gloo:", "wire:"
"""How collectives are named in a trace of CPU ranks: gloo's own, and those of a throttled wire (`devices.throttle`)."""

WORKING_OPERATORS = ("aten::", "mkldnn::", "mkl::", "fsdp::", "torch.distributed.ddp.reducer::", "torch::distributed::")
"""Operators of these namespaces compute or copy. Others launch, wait (``c10d::``) or contain them (``autograd::``)."""

PHASES = ("forward", "backward", "optimizer")


_ITEM_SIZE = {"float": 4, "double": 8, "half": 2, "bfloat16": 2, "byte": 1, "char": 1, "bool": 1, "int": 4, "long": 8}
_NAMES = {"allreduce": "all_reduce", "_allgather_base": "all_gather", "_reduce_scatter_base": "reduce_scatter"}


class NoCommunication(ValueError):
    """A trace without a single collective."""


def on_the_wire(by_rank: Sequence[Overlap]) -> list[Overlap]:
    """The same step of all ranks, without the time in which a collective only waits for a rank that is not there yet.

    A collective begins on each rank when that rank is there, and ends on all of them together. The last to come waits
    for nobody: the shortest of its times is what it takes on the wire. So on each rank it begins that long before its
    end. The first all-gather of one rank is that of every other, and so on by name and order.

    Raises ValueError where the ranks' collectives differ in number or bytes: then they are not of the same step.
    """
    numbered = [_numbered(overlap.intervals) for overlap in by_rank]
    sizes = [{key: each.nbytes for key, each in collectives.items()} for collectives in numbered]
    if any(each != sizes[0] for each in sizes):
        counts = " and ".join(str(len(each)) for each in sizes)
        raise ValueError(
            f"the ranks' collectives, {counts} of them, do not match by name, order and bytes: give one step of all"
        )
    taken = {key: min(each[key].time_ms for each in numbered) for key in sizes[0]} if sizes else {}
    return [
        overlap_of(
            overlap.compute,
            (replace(each, start_ms=each.end_ms - taken[key]) for key, each in collectives.items()),
            overlap.phases,
        )
        for overlap, collectives in zip(by_rank, numbered, strict=True)
    ]


def _numbered(collectives: Iterable[Transfer]) -> dict[tuple[str, int], Transfer]:
    count: Counter[str] = Counter()
    numbered = {}
    for each in collectives:
        numbered[each.name, count[each.name]] = each
        count[each.name] += 1
    return numbered


@door
def analyse(trace: Trace | str | Path | Mapping[str, Any] | profile, alone: bool = False) -> Overlap:
    """How much of one rank's communication is hidden, and which collective is not?

    `trace` is a chrome trace (its path, ``.json`` or ``.json.gz``, or what is in it), a profiler that has stopped, or
    what `measure.trace` read of either.

    On a GPU the kernels count: NCCL's are communication, all others compute, copies and fills neither. On a CPU the
    spans of gloo's threads are communication, and operators that work (`WORKING_OPERATORS`) are compute; code that
    Inductor generated for the CPU writes no spans, but for the library calls in it. `alone`: take a step that sends
    nothing, too.

    Raises ValueError for what is no trace, holds several ranks or devices, no communication (`NoCommunication`), or no
    compute.

    >>> from compile_lab.devices.overlap import analyse
    >>> product = {"ph": "X", "cat": "kernel", "name": "gemm", "ts": 0, "dur": 3000}
    >>> gather = {"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllGather", "ts": 2000, "dur": 4000}
    >>> found = analyse({"traceEvents": [product, gather]})
    >>> found.fraction, found.exposed
    (0.25, (Span(start_ms=3.0, end_ms=6.0),))
    """
    trace = read(trace)
    names = ("nccl",) if trace.kernels else (GLOO, WIRE)
    communicating = [event for event in trace.kernels or trace.marks if event.name.startswith(names)]
    if any(event.name.startswith(WIRE) for event in communicating):  # a throttled wire's spans enclose gloo's
        communicating = [event for event in communicating if event.name.startswith(WIRE)]
    computing = [event for event in trace.kernels or trace.operators if _computes(event)]
    _refuse(bool(trace.kernels), communicating, computing, alone)
    zero_us = min(event.start_us for event in trace.events)
    lanes = list(dict.fromkeys(_lane(event) for event in sorted(communicating, key=lambda event: event.start_us)))
    collectives = [
        Transfer(_name(event), *_span(event, zero_us), _nbytes(event.args), 0.0, lanes.index(_lane(event)))
        for event in communicating
    ]
    phases = _phases(trace, zero_us)
    return overlap_of((_span(event, zero_us) for event in computing), collectives, phases, alone)


def _computes(event: TraceEvent) -> bool:
    if event.kind == "kernel":
        return not event.name.startswith("nccl")
    return event.name.startswith(WORKING_OPERATORS)


def _refuse(gpu: bool, communicating: list[TraceEvent], computing: list[TraceEvent], alone: bool) -> None:
    where = {event.process for event in [*communicating, *computing]}
    if len(where) > 1:
        raise ValueError(
            f"this trace holds {len(where)} processes or devices ({', '.join(sorted(map(str, where)))}), whose times "
            "would be mixed: give the trace of one rank, with one device"
        )
    if not communicating and not alone:
        named = "a kernel of NCCL" if gpu else "a span gloo:…"
        raise NoCommunication(
            f"no communication in this trace: not {named} is in it. Was a step profiled that has any?"
        )
    if not computing:
        named = "a kernel that is not NCCL's" if gpu else "an operator that works, as aten::mm"
        raise ValueError(f"no compute in this trace: not {named} is in it. Was the step inside the profiler?")


def _span(event: TraceEvent, zero_us: float) -> Span:
    start = (event.start_us - zero_us) / 1e3
    return Span(start, start + event.duration_us / 1e3)


def _lane(event: TraceEvent) -> str:
    return str(event.args.get("stream", event.thread))


def _name(event: TraceEvent) -> str:
    name = event.args.get("Collective name") or event.name.removeprefix(GLOO).removeprefix(WIRE)
    return _NAMES.get(name, name)


def _nbytes(args: Mapping[str, Any]) -> int | None:
    """NCCL's kernels tell the numbers of elements; gloo's spans the tensors' shapes, under ``record_shapes``."""
    if "nbytes" in args:
        return int(args["nbytes"])
    if "In msg nelems" in args:
        size = _item_size(args.get("dtype", ""))
        return size and max(args["In msg nelems"], args.get("Out msg nelems", 0)) * size
    if dims := args.get("Input Dims"):
        sizes = [_item_size(kind) for kind in args.get("Input type", ())]
        if len(sizes) == len(dims) and all(sizes) and all(isinstance(n, int) for dim in dims for n in dim):
            return sum(math.prod(dim) * size for dim, size in zip(dims, sizes, strict=True) if size)
    return None


def _item_size(kind: str) -> int | None:
    return _ITEM_SIZE.get(kind.lower().removeprefix("c10::").removesuffix(" int"))


def _phases(trace: Trace, zero_us: float) -> dict[str, Span]:
    phases = {name: [_span(mark, zero_us) for mark in trace.marks if mark.name == name] for name in PHASES}
    nodes = (each for each in trace.operators if each.name.startswith("autograd::engine::evaluate_function"))
    phases["gradients"] = [_span(node, zero_us) for node in nodes]
    if trace.kernels:
        computing = [kernel for kernel in trace.kernels if _computes(kernel)]
        phases = {
            name: _within(merged(spans), computing if name == "gradients" else trace.kernels, trace, zero_us)
            for name, spans in phases.items()
        }
    return {name: _hull(spans) for name, spans in phases.items() if spans}


def _within(marks: Sequence[Span], kernels: Iterable[TraceEvent], trace: Trace, zero_us: float) -> list[Span]:
    """When those of the kernels ran that the host launched, on whatever thread, inside one of the marks.

    The program's marks lie on the thread that called ``backward()``, and autograd launches from a thread of its own. So
    the profiler's marks on the device, which go by threads, leave the backward's kernels out.
    """
    spans = []
    for kernel in kernels:
        launch = trace.launch_of(kernel)
        if launch is None:
            continue
        at = _span(launch, zero_us).start_ms
        if any(mark.start_ms <= at <= mark.end_ms for mark in marks):
            spans.append(_span(kernel, zero_us))
    return spans


def _hull(spans: Sequence[Span]) -> Span:
    return Span(min(span.start_ms for span in spans), max(span.end_ms for span in spans))


def with_wire(trace: Trace, sent: Iterable[tuple[str, int, int, int]]) -> Trace:
    """The trace with what a throttled wire noted: of each collective name, start and end by ``time.time_ns``, bytes."""
    process = next((operator.process for operator in trace.operators), 0)
    marks = (
        TraceEvent(
            "user_annotation",
            f"{WIRE}{name}",
            (start - trace.base_ns) / 1e3,
            (end - start) / 1e3,
            process,
            "throttled wire",
            {"nbytes": nbytes},
        )
        for name, start, end, nbytes in sent
    )
    return replace(trace, events=(*trace.events, *marks))
