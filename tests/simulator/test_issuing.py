"""A CPU that issues and a GPU that works off: a small case by hand, and what always holds."""

import itertools

import pytest

from compile_lab.simulator.issuing import WAYS, Demand, issued, work

SIZES = list(itertools.product((1, 2, 7), (0.0, 1.0, 3.5, 20.0), (0.0, 1.0, 4.0, 20.0)))


def made(way, kernels, kernel_us, issue_us):
    return work(way, kernels, kernel_us, issue_us, fused=2, work_left=0.75, graph_launch_us=6)


def test_a_gpu_that_is_slower_has_a_queue():
    found = issued(work("eager", 3, kernel_us=4, issue_us=1))
    assert [run.start_us for run in found.runs] == [1, 5, 9] and found.end_us == 13
    assert found.waiting() == [(0, 0), (1, 0), (2, 1), (3, 2), (5, 1), (9, 0)]
    assert (found.work.call_us, found.work.limited_by, found.work.idle) == (12, "GPU", 0)


@pytest.mark.parametrize("way", WAYS)
def test_a_call_takes_as_long_as_the_longer_of_both_and_a_later_one_adds_just_that(way):
    for kernels, kernel_us, issue_us in SIZES:
        asked = made(way, kernels, kernel_us, issue_us)
        ends = [issued(asked, calls).end_us for calls in (1, 2, 5, 6)]
        assert ends[0] >= asked.call_us == max(asked.host_us, asked.gpu_us)
        assert ends[1] - ends[0] == pytest.approx(asked.call_us) == ends[3] - ends[2]
        assert 0 <= asked.idle <= 1
        for more in ((kernels, 0, 0), (0, 1, 0), (0, 0, 1)):
            assert made(way, *map(sum, zip((kernels, kernel_us, issue_us), more, strict=True))).call_us >= asked.call_us


def test_uneven_kernels_in_a_long_row_of_calls_take_the_longer_sum():
    asked = Demand("eager", (1.0, 9.0, 2.0), ((8.0,), (0.5, 2.0), (3.0,)))
    assert asked.call_us == asked.gpu_us == 13.5 and asked.kernels == 4
    assert issued(asked, 200).end_us / 200 == pytest.approx(13.5, rel=0.01)
    found = issued(asked, 3)
    assert all(then.start_us >= max(first.end_us, then.issued_us) for first, then in itertools.pairwise(found.runs))
    idle = sum(end - start for start, end in found.gaps())
    assert found.end_us == pytest.approx(3 * asked.gpu_us + idle)
    assert all(depth >= 0 for _, depth in found.waiting()) and found.waiting()[-1][1] == 0
