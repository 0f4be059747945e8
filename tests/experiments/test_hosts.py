"""The same GPU beside another host: what pairs with what, and what the picture leaves out."""

from dataclasses import replace

import pytest

from compile_lab import recordings
from compile_lab.experiments import hosts, hosts_view
from compile_lab.experiments.hosts import Pair
from compile_lab.modes.cost import ModeCost, Spread


def cost(median_ms, low_ms, high_ms, gpu_ms=0.5):
    launches = {"kernels": 1.0, "gpu_ms": gpu_ms, "launches": 1.0, "graphs": 0.0, "launch_ms": 0.1}
    call = {"median_ms": median_ms, "low_ms": low_ms, "high_ms": high_ms}
    return ModeCost.from_json({**EMPTY, "call": call, "launches": launches})


EMPTY = recordings.load("modes").result["workloads"][0]["cases"][0]


def test_a_ratio_is_said_only_where_quartiles_are_apart():
    one = Pair("x", "eager", cost(1.0, 0.9, 1.1), cost(2.0, 1.8, 2.2))
    assert one.ratio == 2.0 and one.busy == 0.5
    assert replace(one, other=cost(1.2, 1.1, 1.3)).ratio is None, "1.1 belongs to both"
    assert replace(one, other=cost(0.5, 0.4, 0.6)).ratio == 0.5
    assert replace(one, first=cost(1.0, 0.9, 1.1, gpu_ms=1.2)).busy == 1.0, "kernels that overlap fill no more than all"


def test_both_hosts_drove_the_same_gpu_with_the_same_torch_and_the_second_is_named():
    for name in ("modes", "compile_gains", "timeline", "dispatch", "graph_breaks"):
        first, other = (recording.provenance for recording in hosts.both(name))
        assert (first.device, first.torch, first.cuda) == (other.device, other.torch, other.cuda)
        assert first.date < other.date and "16 cores" in other.cpu


def test_pairs_begin_with_the_workload_whose_gpu_waits_most():
    found = hosts.pairs()
    eager = [one.busy for one in found if one.mode == "eager"]
    assert eager == sorted(eager) and len(found) == 3 * len(eager)
    assert all(isinstance(call, Spread) for one in found for call in (one.first.call, one.other.call))


def test_where_the_gpu_is_busy_the_host_changes_little_and_where_it_waits_eager_takes_longer():
    """What chapter 06 says of the two hosts."""
    eager = [one for one in hosts.pairs() if one.mode == "eager"]
    busy = [one.ratio or 1.0 for one in eager if one.busy > 0.9]
    waiting = [one.ratio for one in eager if one.busy < 0.5]
    assert busy and all(ratio == pytest.approx(1, abs=0.05) for ratio in busy)
    assert waiting and all(ratio and ratio > 1.25 for ratio in waiting)


def test_the_picture_has_a_row_a_workload_and_no_dot_for_what_is_not_told_apart():
    apart = Pair("x", "eager", cost(1.0, 0.9, 1.1), cost(2.0, 1.8, 2.2))
    same = replace(apart, other=cost(1.05, 1.0, 1.1))
    drawn = hosts_view.picture([apart, replace(same, mode="default"), replace(apart, mode="reduce-overhead")])
    assert [row[-1] for row in drawn.table.rows] == ["2.00×", "not told apart", "2.00×"]
    assert "x, default: not told apart" in drawn.alt
