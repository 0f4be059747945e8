"""A CPU that issues and a GPU that works off: small cases by hand, what always holds, and what was recorded."""

import itertools

import pytest

from compile_lab import recordings
from compile_lab.simulator.issuing import WAYS, Demand, issued, work

SIZES = list(itertools.product((1, 2, 7), (0.0, 1.0, 3.5, 20.0), (0.0, 1.0, 4.0, 20.0)))


def made(way, kernels, kernel_us, issue_us):
    return work(way, kernels, kernel_us, issue_us, fused=2, work_left=0.75, graph_launch_us=6)


def test_a_cpu_that_is_slower_keeps_the_gpu_waiting():
    found = issued(work("eager", 3, kernel_us=2, issue_us=5))
    assert [(run.begun_us, run.issued_us, run.start_us, run.end_us) for run in found.runs] == [
        (0, 5, 5, 7),
        (5, 10, 10, 12),
        (10, 15, 15, 17),
    ]
    assert list(found.gaps()) == [(0, 5), (7, 10), (12, 15)] and found.end_us == 17
    assert max(depth for _, depth in found.waiting()) == 0
    assert (found.work.call_us, found.work.limited_by, found.work.idle) == (15, "CPU", pytest.approx(0.6))


def test_a_gpu_that_is_slower_has_a_queue():
    found = issued(work("eager", 3, kernel_us=4, issue_us=1))
    assert [run.start_us for run in found.runs] == [1, 5, 9] and found.end_us == 13
    assert found.waiting() == [(0, 0), (1, 0), (2, 1), (3, 2), (5, 1), (9, 0)]
    assert (found.work.call_us, found.work.limited_by, found.work.idle) == (12, "GPU", 0)


def test_compiled_there_are_fewer_kernels_and_a_graph_is_one_launch():
    compiled, graph = (made(way, 10, 4.0, 5.0) for way in WAYS[1:])
    assert compiled.issues_us == (5,) * 5 and compiled.kernels == graph.kernels == 5
    assert compiled.gpu_us == graph.gpu_us == pytest.approx(30) and graph.issues_us == (6,)
    runs = issued(graph).runs
    assert {run.issued_us for run in runs} == {6} and [run.start_us for run in runs] == [6, 12, 18, 24, 30]
    assert (compiled.call_us, graph.call_us) == (pytest.approx(30), pytest.approx(30)), "both limited by the GPU"
    assert (made("compiled", 10, 1, 5).call_us, made("CUDA graph", 10, 1, 5).call_us) == (25, 7.5)


@pytest.mark.parametrize("way", WAYS)
def test_a_call_takes_as_long_as_the_longer_of_both_and_a_later_one_adds_just_that(way):
    for sizes in SIZES:
        asked = made(way, *sizes)
        ends = [issued(asked, calls).end_us for calls in (1, 2, 5, 6)]
        assert ends[0] >= asked.call_us == max(asked.host_us, asked.gpu_us)
        assert ends[1] - ends[0] == pytest.approx(asked.call_us) == ends[3] - ends[2]
        assert 0 <= asked.idle <= 1


@pytest.mark.parametrize("way", WAYS)
def test_more_work_or_dearer_issues_never_make_a_call_shorter(way):
    for kernels, kernel_us, issue_us in SIZES:
        least = made(way, kernels, kernel_us, issue_us)
        for more in ((kernels * 2, kernel_us, issue_us), (kernels, kernel_us + 1, issue_us)):
            assert made(way, *more).call_us >= least.call_us
        assert made(way, kernels, kernel_us, issue_us + 1).call_us >= least.call_us


def test_uneven_kernels_in_a_long_row_of_calls_take_the_longer_sum():
    asked = Demand("eager", (1.0, 9.0, 2.0), ((8.0,), (0.5, 2.0), (3.0,)))
    assert asked.call_us == asked.gpu_us == 13.5 and asked.kernels == 4
    assert issued(asked, 200).end_us / 200 == pytest.approx(13.5, rel=0.01)
    found = issued(asked, 3)
    assert all(then.start_us >= max(first.end_us, then.issued_us) for first, then in itertools.pairwise(found.runs))
    idle = sum(end - start for start, end in found.gaps())
    assert found.end_us == pytest.approx(3 * asked.gpu_us + idle)
    assert all(depth >= 0 for _, depth in found.waiting()) and found.waiting()[-1][1] == 0


# ---- what was recorded ----------------------------------------------------------------------------------------------


def test_it_agrees_with_recorded_batches_within_an_eighth():
    """A call's time was measured by itself, the time to issue it and its kernels' each in another run."""
    rows = recordings.load("dispatch").result["batches"]
    off = {}
    for row in rows:
        count, issue_us = int(row["kernels"]), row["issue"]["median_us"] / row["kernels"]
        found = work("eager", count, row["kernels_us"] / count, issue_us)
        off[row["pass"], row["batch"]] = found.call_us / row["wall"]["median_us"] - 1
        clear = max(found.host_us, found.gpu_us) > 1.2 * min(found.host_us, found.gpu_us)
        assert not clear or found.limited_by == ("GPU" if row["batch"] >= 512 else "CPU")
    assert max(map(abs, off.values())) < 0.125 and sum(abs(each) < 0.05 for each in off.values()) >= 18
    # It is too quick where both take nearly as long: there neither runs ahead enough to hide the other's hesitations.
    assert off["training", 512] < -0.1 and off["forward", 256] < -0.05


def test_it_agrees_with_recorded_modes_within_a_sixth_from_one_price_of_a_launch():
    """All launches at the price of one model's eager ones; kernels and their time as the profiler saw them."""
    found = {
        one["name"]: {case["mode"]: case for case in one["cases"]}
        for one in recordings.load("modes").result["workloads"]
    }
    eager = found["MiniGPT inference"]["eager"]
    issue_us = eager["call"]["median_ms"] * 1e3 / eager["launches"]["kernels"]
    off = {}
    for name, cases in found.items():
        for mode, way in (("eager", "eager"), ("default", "compiled"), ("reduce-overhead", "CUDA graph")):
            if mode in cases:
                seen = cases[mode]["launches"]
                sizes = int(seen["kernels"]), 1e3 * seen["gpu_ms"] / seen["kernels"]
                asked = work(way, *sizes, issue_us, graph_launch_us=1e3 * seen["launch_ms"])
                off[name, mode] = asked.call_us / (1e3 * cases[mode]["call"]["median_ms"]) - 1
    assert len(off) == 13 and max(map(abs, off.values())) < 1 / 6
    # Here it is wrong in kind: it promises a gain by fusing that was not there, for a compiled launch is no cheaper.
    assert off["GPT-2 inference, batch 1", "eager"] > 0.1 and off["GPT-2 inference, batch 1", "default"] < -0.1
