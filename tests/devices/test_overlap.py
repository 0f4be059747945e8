"""Overlap from traces with known answers: CPU with gloo, GPU with NCCL, a throttled wire; the arithmetic of spans."""

import itertools
import random

import pytest

from compile_lab.devices import overlap
from compile_lab.devices.overlap import on_the_wire
from compile_lab.measure.trace import read
from compile_lab.simulator.overlap import Span, Transfer, difference, intersection, merged, overlap_of, total_ms


def cpu_op(name, start_us, dur_us, pid=7):
    return {"ph": "X", "cat": "cpu_op", "name": name, "pid": pid, "tid": pid, "ts": 1000 + start_us, "dur": dur_us}


def gloo(start_us, dur_us, tid=8, args=None, name="gloo:all_reduce", pid=7):
    times = {"ts": 1000 + start_us, "dur": dur_us}
    return {"ph": "X", "cat": "user_annotation", "name": name, "pid": pid, "tid": tid, **times, "args": args or {}}


def kernel(name, start_us, dur_us, stream, device=0, **args):
    where = {"pid": device, "tid": stream, "args": {"device": device, "stream": stream, **args}}
    return {"ph": "X", "cat": "kernel", "name": name, "ts": 1000 + start_us, "dur": dur_us, **where}


def nccl(name, start_us, dur_us, elements, dtype="Float", device=0):
    collective, inside, outside = elements
    told = {"Collective name": collective, "In msg nelems": inside, "Out msg nelems": outside, "Group size": 2}
    return kernel(f"ncclDevKernel_{name}", start_us, dur_us, 24, device, **told, dtype=dtype)


def trace(*events):
    return {"schemaVersion": 1, "baseTimeNanoseconds": 0, "traceEvents": list(events)}


MM, CPU = "aten::mm", {"Input Dims": [[1000]], "Input type": ["float"]}


@pytest.fixture
def cpu_trace():
    """Compute 0 to 4 and 5 to 8 ms; an all-reduce 3 to 6 ms, half hidden by a third; another 7 to 9 ms."""
    return trace(
        {"ph": "M", "name": "process_name", "ts": 0, "pid": 7, "tid": 0, "args": {"name": "python"}},
        cpu_op("aten::linear", 0, 4000),
        cpu_op("aten::addmm", 500, 3000),
        cpu_op("autograd::engine::evaluate_function: AccumulateGrad", 4000, 1000),
        cpu_op("c10d::allreduce_", 4100, 900),
        cpu_op(MM, 5000, 3000),
        gloo(3000, 3000, args=CPU),
        gloo(7000, 2000, tid=9, args={"Input Dims": [[3, 2], [4]], "Input type": ["c10::BFloat16", "long int"]}),
        gloo(0, 9500, name="backward"),
    )


def test_a_cpu_trace_is_compute_by_operators_and_communication_by_gloos_threads(cpu_trace):
    found = overlap.analyse(cpu_trace)
    assert found.compute == (Span(0, 4), Span(5, 8)) and found.communication == (Span(3, 6), Span(7, 9))
    assert found.exposed == (Span(4, 5), Span(8, 9)) and found.exposed_ms == pytest.approx(2)
    assert found.fraction == pytest.approx(0.6) and found.span_ms == pytest.approx(9)
    first, second = found.intervals
    assert (first.name, first.nbytes, first.lane) == ("all_reduce", 4000, 0)
    assert first.hidden == pytest.approx(2 / 3) and second.hidden == pytest.approx(0.5)
    assert (second.nbytes, second.lane) == (3 * 2 * 2 + 4 * 8, 1)
    assert found.phases == {"backward": Span(0, 9.5), "gradients": Span(4, 5)}


def test_a_gpu_trace_is_read_from_its_kernels_alone():
    found = overlap.analyse(
        trace(
            cpu_op(MM, 0, 50_000),  # the host's time says nothing about the device's
            gloo(0, 50_000, name="gloo:all_reduce"),
            kernel("sm90_xmma_gemm", 1000, 2000, 7),
            kernel("Memcpy DtoD", 3000, 500, 7) | {"cat": "gpu_memcpy"},
            nccl("AllReduce_Sum_bf16_RING_LL", 2000, 2000, ("allreduce", 1000, 1000), "BFloat16"),
            nccl("AllGather_RING_LL", 5000, 1000, ("_allgather_base", 250, 500)),
            nccl("Broadcast_RING_LL", 7000, 1000, ("broadcast", 10, 10), "Unheard"),
        )
    )
    assert [(c.name, c.nbytes) for c in found.intervals] == [
        ("all_reduce", 2000),
        ("all_gather", 2000),
        ("broadcast", None),
    ]
    assert found.compute == (Span(1, 3),) and found.exposed_ms == pytest.approx(3) and found.fraction == 0.25
    assert found.phases == {}


def launched(number, at_us, tid, what, api="cudaLaunchKernel", cat="cuda_runtime"):
    """A kernel, and the call on the host that launched it."""
    where = {"pid": 7, "tid": tid, "ts": 1000 + at_us, "dur": 5, "args": {"correlation": number}}
    what["args"]["correlation"] = number
    return {"ph": "X", "cat": cat, "name": api, **where}, what


MAIN, AUTOGRAD = 7, 9


def test_a_phase_on_a_gpu_is_made_of_the_kernels_that_were_launched_in_it_by_any_thread():
    """As in a real trace: the host is done with each phase long before the device begins it."""
    driver = {"api": "cuLaunchKernelEx", "cat": "cuda_driver"}
    node = {"tid": AUTOGRAD, "name": "autograd::engine::evaluate_function: MmBackward0"}
    found = overlap.analyse(
        trace(
            gloo(0, 100, MAIN, name="forward"),
            *launched(1, 20, MAIN, kernel("embedding", 500, 1000, 7)),
            *launched(2, 60, MAIN, kernel("gemm", 1500, 1000, 7)),
            gloo(100, 200, MAIN, name="backward"),
            cpu_op(node["name"], 110, 100) | node,
            *launched(3, 120, AUTOGRAD, kernel("gemm", 2500, 2000, 7), **driver),
            *launched(4, 190, AUTOGRAD, nccl("AllReduce", 4500, 1500, ("allreduce", 9, 9))),
            *launched(5, 220, AUTOGRAD, kernel("copy", 6000, 100, 7)),  # in a callback, after the last node
            kernel("backward", 2600, 1, 7) | {"cat": "gpu_user_annotation", "name": "backward"},
            gloo(300, 50, MAIN, name="optimizer"),
            *launched(6, 310, MAIN, kernel("adam", 6500, 500, 7)),
            gloo(360, 50, MAIN, name="evaluation"),
            *launched(7, 370, MAIN, kernel("gemm", 7000, 500, 7)),
        )
    )
    assert found.phases == {
        "forward": Span(0.5, 2.5),
        "backward": Span(2.5, 6.1),
        "gradients": Span(2.5, 4.5),
        "optimizer": Span(6.5, 7),
    }


def test_a_throttled_wire_stands_for_the_gloo_spans_inside_it(cpu_trace):
    seen = overlap.with_wire(read(cpu_trace), [("all_reduce", 4_000_000, 6_000_000, 77)])
    (only,) = overlap.analyse(seen).intervals
    assert (only.name, only.nbytes, only.time_ms) == ("all_reduce", 77, pytest.approx(2))


def spans(seed):
    drawn = random.Random(seed)
    starts = [drawn.randrange(60) for _ in range(drawn.randrange(12))]
    return [Span(start, start + drawn.randrange(9)) for start in starts]


def seconds(some):
    """The same as a set of unit cells: what the arithmetic is checked against."""
    return {cell for start, end in some for cell in range(int(start), int(end))}


@pytest.mark.parametrize("seed", range(60))
def test_span_arithmetic_is_that_of_sets(seed):
    raw_one, raw_other = spans(seed), spans(seed + 1000)
    one, other = merged(raw_one), merged(raw_other)
    assert seconds(one) == seconds(raw_one) and total_ms(one) == len(seconds(one))
    assert all(a.end_ms < b.start_ms for a, b in itertools.pairwise(one)) and merged(one) == one
    assert seconds(intersection(one, other)) == seconds(one) & seconds(other)
    assert seconds(difference(one, other)) == seconds(one) - seconds(other)
    assert intersection(one, other) == intersection(other, one)
    assert total_ms(difference(one, other)) + total_ms(intersection(one, other)) == total_ms(one)


@pytest.mark.parametrize("seed", range(20))
def test_hidden_and_exposed_make_up_the_communication(seed):
    wire = [Transfer("all_reduce", *span, 1, 0.0) for span in merged(spans(seed)) or [Span(0, 1)]]
    found = overlap_of(spans(seed + 500), wire)
    hidden = sum(each.hidden * each.time_ms for each in found.intervals)
    assert hidden + found.exposed_ms == pytest.approx(found.communication_ms)
    assert found.fraction == pytest.approx(hidden / found.communication_ms) and 0 <= found.fraction <= 1


def test_on_the_wire_a_collective_takes_what_it_takes_on_the_last_rank_to_come():
    early = overlap_of(
        [Span(0, 10), Span(14, 20)], [Transfer("all_reduce", 4, 13, 8, 0.0), Transfer("all_gather", 13, 16, 4, 0.0, 1)]
    )
    late = overlap_of([Span(2, 14)], [Transfer("all_gather", 12, 18, 4, 0.0, 1), Transfer("all_reduce", 9, 12, 8, 0.0)])
    one, other = on_the_wire([early, late])
    assert [(each.name, each.start_ms, each.end_ms) for each in one.intervals] == [
        ("all_reduce", 10, 13),
        ("all_gather", 13, 16),
    ]
    assert [(each.start_ms, each.end_ms) for each in other.intervals] == [(9, 12), (15, 18)]
    assert (one.communication_ms, one.exposed_ms, one.fraction) == (6, 4, pytest.approx(1 / 3))
    assert one.compute == early.compute and early.communication_ms == 12
    assert [each.hidden for each in one.intervals] == [0, pytest.approx(2 / 3)]
