"""A profiler's trace on one axis of time: what is nested is drawn below, and the shares are those of a known trace."""

import pytest
import torch
import torch.nn.functional as F

from chapters.eager_baseline import profile_view
from compile_lab.measure.trace import Trace, TraceEvent, profiled


def op(name, start, duration, thread=1):
    return TraceEvent("cpu_op", f"aten::{name}", start, duration, 0, thread)


KNOWN = (op("linear", 10, 40), op("t", 12, 8), op("transpose", 13, 4), op("addmm", 22, 20), op("gelu", 60, 30))
KERNELS = (TraceEvent("kernel", "gemm", 45, 20), TraceEvent("kernel", "gelu", 60, 10))


def test_levels_hold_what_lies_in_no_other_and_what_lies_in_one():
    other = op("noise", 0, 1000, thread=2)
    found = profile_view.levels(Trace((other, *reversed(KNOWN))))
    names = [[event.name.removeprefix("aten::") for event in level] for level in found]
    assert names == [["linear", "gelu"], ["t", "addmm"], ["transpose"]]


def test_overlapping_events_count_once():
    assert profile_view.covered_us(KERNELS) == 25 and profile_view.covered_us([]) == 0


def test_the_shares_are_those_of_the_trace():
    assert (profile_view.span_us(Trace(KNOWN)), profile_view.span_us(Trace(KNOWN[:1] + KERNELS))) == (80, 60)
    told = profile_view.told(Trace(KNOWN))
    assert "takes 80 µs" in told and "calls 2 operators" in told and "88% of that time" in told and "GPU" not in told
    assert "The GPU computes 31% of the time." in profile_view.told(Trace((*KNOWN, *KERNELS)))


def test_every_event_has_its_box_and_a_gpu_has_a_lane():
    on_cpu, on_gpu = (profile_view.nested(Trace(events)) for events in (KNOWN, (*KNOWN, *KERNELS)))
    assert on_cpu.svg.count("<rect") == len(KNOWN) + 1 and on_gpu.svg.count("<rect") == len(KNOWN + KERNELS) + 2
    assert "the GPU" in on_gpu.svg and "the GPU" not in on_cpu.svg
    assert [row[:2] for row in on_cpu.table.rows] == [("aten::linear", 1), ("aten::gelu", 1)]


def test_a_real_call_is_drawn_as_it_was_called():
    x, w = torch.rand(8, 64), torch.rand(64, 64)
    found = profile_view.levels(profiled(lambda: F.gelu(F.linear(x, w)), "cpu"))
    assert [event.name for event in found[0]] == ["aten::linear", "aten::gelu"]
    assert {"aten::t", "aten::matmul"} <= {event.name for event in found[1]}


def test_a_trace_without_an_operator_is_refused():
    for ask in (profile_view.nested, profile_view.told, profile_view.span_us):
        with pytest.raises(ValueError, match="nothing of torch was called"):
            ask(Trace(KERNELS))
