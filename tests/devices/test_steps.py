"""Overlap on real ranks: a throttled wire keeps its bandwidth, buckets hide what one bucket cannot."""

import ctypes
import hashlib
import sys
import threading
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist
from torch import nn

from compile_lab.devices import compiled_ddp, ranks, throttle
from compile_lab.devices import steps as overlap_runs
from compile_lab.simulator.overlap import Span, Transfer, overlap_of

pytestmark = pytest.mark.processes

WIDTH, LAYERS = 256, 6


class Stack(nn.Module):
    def __init__(self, width=WIDTH):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Sequential(*(nn.Linear(width, width) for _ in range(LAYERS)))

    def forward(self, x):
        return self.layers(x).square().mean()


def ddp_steps(bytes_per_s=None):
    group = throttle.throttled(bytes_per_s) if bytes_per_s else None
    x, steps = torch.randn(512, WIDTH), {}
    for name, mb in (("one bucket", 100), ("small buckets", 0.2)):
        model = nn.parallel.DistributedDataParallel(Stack(), bucket_cap_mb=mb, process_group=group)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        steps[name] = overlap_runs.training_step(model, optimizer, x)
    steps["nothing sent"] = overlap_runs.training_step(model, optimizer, x, send=False)
    return overlap_runs.measured(steps, group)


def test_gloos_collectives_are_found_in_the_trace_of_every_rank():
    for run in ranks.run(ddp_steps, 2):
        assert len(run["one bucket"].overlap.intervals) == 1
        nbytes = LAYERS * (WIDTH + 1) * WIDTH * 4
        buckets = run["small buckets"].overlap.intervals
        assert len(buckets) > 3 and sum(each.nbytes for each in buckets) == nbytes
        alone = run["nothing sent"].overlap
        assert alone.intervals == () and alone.exposed_ms == 0 and alone.compute_ms > 0
        assert 0 < run["nothing sent"].low_ms <= run["nothing sent"].step_ms <= run["nothing sent"].high_ms
        assert 0 < run["nothing sent"].host_ms <= run["nothing sent"].high_ms


def times_of_two_steps():
    """By a clock that the steps move and, before the barrier, a rank that comes late; and in what order all came."""
    seen, now, barrier = [], [0.0], dist.barrier

    def meet():
        now[0] += 0.3 * dist.get_rank()
        barrier()
        seen.append("barrier")

    def step(name, seconds):
        seen.append(name)
        now[0] += seconds

    dist.barrier = meet
    overlap_runs.time = SimpleNamespace(perf_counter=lambda: seen.append("clock") or now[0])
    steps = {"short": lambda: step("short", 0.01), "long": lambda: step("long", 0.05)}
    return overlap_runs.step_times_us(steps, rounds=2, warm_up=1), seen


def test_steps_take_turns_in_changing_order_begin_together_and_are_warmed_up():
    orders = []
    for times, seen in ranks.run(times_of_two_steps, 2):
        calls = [each for each in seen if each in times]
        before = [seen[at - 2 : at] for at, each in enumerate(seen) if each in times]
        assert before == [["barrier", "clock"]] * 6
        rounds = [calls[at : at + 2] for at in range(0, 6, 2)]
        assert all(sorted(each) == ["long", "short"] for each in rounds) and rounds[0] != rounds[1]
        assert [len(times[name]) for name in times] == [2, 2]
        assert all(issued <= whole for name in times for whole, issued in times[name])
        assert [whole for whole, _ in times["short"]] == pytest.approx([10_000] * 2)
        assert [whole for whole, _ in times["long"]] == pytest.approx([50_000] * 2)
        orders.append(calls)
    assert orders[0] == orders[1], "all ranks take the same step at a time"


def typical():
    """Three steps; to one rank alone the first would be the typical one, to the other the last."""
    exposed = ([5, 2, 9], [1, 8, 3])[dist.get_rank()]
    seen = [overlap_of([Span(0, 1)], [Transfer("all_reduce", 2, 2 + ms, 1, 0.0)]) for ms in exposed]
    return overlap_runs._typical(seen, "cpu").exposed_ms


@pytest.mark.slow  # it looks at a clock
def test_on_a_throttled_wire_small_buckets_hide_what_one_bucket_cannot():
    nbytes = LAYERS * (WIDTH + 1) * WIDTH * 4
    for run in ranks.run(ddp_steps, 2, nbytes / 0.1):  # 100 ms for all of them
        one, small = run["one bucket"].overlap, run["small buckets"].overlap
        assert one.communication_ms >= 99 and small.communication_ms >= 99
        assert one.fraction < 0.1 and small.exposed_ms < one.exposed_ms
        assert small.intervals[0].start_ms < small.phases["gradients"].end_ms <= one.intervals[0].end_ms
        for each in (one, small):
            assert each.intervals[-1].end_ms <= each.phases["optimizer"].start_ms
        assert run["nothing sent"].overlap.intervals == () and run["one bucket"].step_ms >= 99


def groups_and_a_wire():
    """What a throttled group computes and sent; the threads of each gloo group; which profiled step is typical."""
    group = throttle.throttled(1e7)
    rank = dist.get_rank()
    x = torch.arange(4.0) + rank
    dist.all_reduce(x, group=group)
    gathered = torch.zeros(8)
    dist.all_gather_into_tensor(gathered, x + rank, group=group)
    part = torch.zeros(4)
    dist.reduce_scatter_tensor(part, gathered, group=group)
    dist.all_reduce(torch.zeros(125_000), group=group)
    groups = [dist.group.WORLD, dist.new_group(), group._inner]
    threads = [each._get_backend(torch.device("cpu")).options._threads for each in groups]
    return (x, gathered, part, group.sent), threads, typical()


def test_a_throttled_group_computes_what_gloo_does_and_takes_bytes_over_bandwidth():
    found = ranks.run(groups_and_a_wire, 2)
    for rank, ((x, gathered, part, sent), threads, _) in enumerate(found):
        assert x.tolist() == [1, 3, 5, 7] and gathered.tolist() == [1, 3, 5, 7, 2, 4, 6, 8]
        assert part.tolist() == [2 * value for value in gathered[4 * rank : 4 * rank + 4].tolist()]
        assert [(name, nbytes) for name, _, _, nbytes in sent] == [
            ("all_reduce", 16),
            ("all_gather", 32),
            ("reduce_scatter", 32),
            ("all_reduce", 500_000),
        ]
        start, end = sent[-1][1:3]
        assert (end - start) / 1e9 >= 0.05, "500 kB at 10 MB/s"
        assert threads == [1, 1, 1], "of each gloo group one thread completes the collectives"
    assert [chosen for *_, chosen in found] == [2, 8], "the profiled step is the same one on every rank"


def many_gathers_on_their_way():
    group = throttle.throttled(1e12)
    right = True
    for each in range(1500):
        parts = [torch.full((8192,), float(10 * each + dist.get_rank())) for _ in range(4)]
        wholes = [torch.empty(16384) for _ in parts]
        works = [
            group.allgather_into_tensor_coalesced([whole], [part]) for whole, part in zip(wholes, parts, strict=True)
        ]
        for whole, work in zip(wholes, works, strict=True):
            work.wait()
            right &= (whole.view(2, -1) == torch.tensor([[10.0 * each], [10.0 * each + 1]])).all().item()
    return right


@pytest.mark.slow
def test_many_gathers_on_their_way_leave_the_heap_whole():
    """With two threads for a gloo group such a run ended by SIGABRT: `one_gloo_thread` (torch 2.13.0)."""
    assert ranks.run(many_gathers_on_their_way, 2, timeout=600) == [True, True]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="where threads cannot be looked at it is a pause")
def test_a_step_settles_when_gloos_threads_are_at_rest():
    """A profiler that stops before is written into after it was freed, and the rank may die of it."""
    noted, begun = [], threading.Event()

    def gloo():
        ctypes.CDLL(None).prctl(15, b"pt_gloo_runloop")  # PR_SET_NAME
        begun.set()
        hashlib.sha256(bytes(300_000_000))  # without the interpreter's lock
        noted.append(True)

    thread = threading.Thread(target=gloo)
    thread.start()
    begun.wait()
    ranks.settle()
    assert noted == [True]
    thread.join()


def graphs_and_weights():
    from torch.profiler import profile

    modules = []

    def make():
        modules.append(Stack(512))  # a layer is 1 MB
        return modules[-1]

    found = {}
    for way, step in compiled_ddp.steps(make, torch.ones(8, 512), bucket_mb=1).items():
        with profile() as seen:
            step()
        found[way] = [event.name for event in seen.events()].count("CompiledFunction")
    return found, [torch.cat([p.detach().flatten() for p in module.parameters()]) for module in modules]


@pytest.mark.slow
def test_only_optimize_ddp_cuts_the_graph_and_all_ways_train_alike():
    (graphs, (eager, cut, whole)), (other, _) = ranks.run(graphs_and_weights, 2, timeout=600)
    assert graphs == other and graphs["eager"] == 0
    assert graphs["one graph"] == 1 and graphs["cut at its buckets"] > 2
    torch.testing.assert_close(cut, eager)
    torch.testing.assert_close(whole, eager)
