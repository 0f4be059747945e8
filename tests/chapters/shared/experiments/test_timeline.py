"""The recording of one call's timeline: what is read out of a trace, and what is drawn of it."""

import json

import pytest

from chapters.shared import timeline_view
from chapters.shared.experiments.timeline import CallTimeline, LaunchedKernel, kernels_of, record
from compile_lab.measure.trace import read


def event(kind, name, start, duration, correlation):
    return {"ph": "X", "cat": kind, "name": name, "ts": start, "dur": duration, "args": {"correlation": correlation}}


TRACE = read(
    {
        "traceEvents": [
            event("cuda_runtime", "cudaLaunchKernel", 100, 5, 1),
            event("cuda_runtime", "cudaGraphLaunch", 120, 10, 2),
            event("kernel", "later_gelu", 150, 20, 2),
            event("kernel", "first", 108, 4, 1),
            event("kernel", "beside", 160, 20, 2),
            event("kernel", "launched by nobody here", 90, 4, 9),
        ]
    }
)


def test_kernels_stand_with_their_launches_a_graph_is_one_and_what_overlaps_is_busy_once():
    kernels = kernels_of(TRACE)
    assert kernels == (
        LaunchedKernel("first", 0, 5, 8, 12),
        LaunchedKernel("later_gelu", 20, 30, 50, 70),
        LaunchedKernel("beside", 20, 30, 60, 80),
    )
    timeline = CallTimeline("forward", "default", 70.0, 69.0, 72.0, kernels)
    assert timeline.launches == ((0, 5), (20, 30))
    assert timeline.span_us == 80 and timeline.busy_us == 4 + 30


def test_a_timeline_without_kernels_is_refused():
    with pytest.raises(ValueError, match="no kernels"):
        timeline_view.lanes([CallTimeline("forward", "eager", 1.0, 1.0, 1.0, ())])
    with pytest.raises(ValueError, match="nothing to draw"):
        timeline_view.lanes([])


def test_the_recording_is_plain_and_complete():
    found = record("cpu", samples=3, modes=["eager"])
    assert json.loads(json.dumps(found)) == found
    read_back = [CallTimeline.from_json(row) for row in found["timelines"]]
    assert [(each.call, each.mode) for each in read_back] == [("forward", "eager"), ("training", "eager")]
    assert all(0 < each.low_us <= each.median_us <= each.high_us for each in read_back)
