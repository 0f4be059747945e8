"""A profiler's trace on one axis of time: what is nested is drawn below, and the shares are those of a known trace."""

import pytest

from chapters.eager_baseline import profile_view
from compile_lab.measure.trace import Trace, TraceEvent


def op(name, start, duration, thread=1):
    return TraceEvent("cpu_op", f"aten::{name}", start, duration, 0, thread)


KNOWN = (op("linear", 10, 40), op("t", 12, 8), op("transpose", 13, 4), op("addmm", 22, 20), op("gelu", 60, 30))
KERNELS = (TraceEvent("kernel", "gemm", 45, 20), TraceEvent("kernel", "gelu", 60, 10))


def test_levels_hold_what_lies_in_no_other_and_what_lies_in_one():
    other = op("noise", 0, 1000, thread=2)
    found = profile_view.levels(Trace((other, *reversed(KNOWN))))
    names = [[event.name.removeprefix("aten::") for event in level] for level in found]
    assert names == [["linear", "gelu"], ["t", "addmm"], ["transpose"]]


def test_the_shares_are_those_of_the_trace_and_what_overlaps_counts_once():
    assert profile_view.covered_us(KERNELS) == 25 and profile_view.covered_us([]) == 0
    assert (profile_view.span_us(Trace(KNOWN)), profile_view.span_us(Trace(KNOWN[:1] + KERNELS))) == (80, 60)
    told = profile_view.summary(Trace((*KNOWN, *KERNELS)))
    assert all(part in told for part in ("80 µs", "2 operators", "88 %", "31 %"))
    assert "GPU" not in profile_view.summary(Trace(KNOWN))


def test_a_trace_without_an_operator_is_refused():
    for ask in (profile_view.nested, profile_view.summary, profile_view.span_us):
        with pytest.raises(ValueError, match="nothing of torch was called"):
            ask(Trace(KERNELS))
