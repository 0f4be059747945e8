"""The profiler's trace: as torch itself reads it, and who launched what, by traces with known answers."""

from collections import Counter, defaultdict

import pytest
import torch
from example_trace import SEEN
from torch.autograd import DeviceType
from torch.profiler import record_function

from compile_lab.measure.trace import profiled, profiling, read

pytestmark = pytest.mark.processes


def step():
    layer = torch.nn.Linear(16, 16)
    with record_function("forward"):
        loss = layer(torch.ones(4, 16)).relu().sum()
    with record_function("backward"):
        loss.backward()


def test_operators_and_marks_are_those_that_torch_lists():
    with profiling("cpu") as profiler:
        step()
    trace, listed = read(profiler), list(profiler.events())
    spans = [*trace.operators, *trace.marks]
    begin_us = trace.marks[0].start_us - next(event.time_range.start for event in listed if event.name == "forward")
    for event in listed:  # torch's list leaves out an operator that does nothing but call itself
        alike = [span for span in spans if span.name == event.name]
        starts = [span.start_us - begin_us for span in alike]
        at = min(range(len(alike)), key=lambda at, starts=starts, event=event: abs(starts[at] - event.time_range.start))
        assert starts[at] == pytest.approx(event.time_range.start, abs=0.01)
        assert alike[at].duration_us == pytest.approx(event.time_range.elapsed_us(), abs=0.01)
    assert {span.name for span in spans} == {event.name for event in listed} and len(spans) >= len(listed) > 20
    assert [mark.name for mark in trace.marks] == ["forward", "backward"]
    assert not trace.kernels and not trace.launches


def test_an_error_of_the_step_is_the_callers():
    with pytest.raises(ZeroDivisionError):
        profiled(lambda: 1 / 0, "cpu")
    assert profiled(step, "cpu").operators, "and the next step can be profiled"


def test_kernels_come_in_their_order_and_know_who_launched_them():
    early, late, triton, nobodys = SEEN.kernels
    assert [kernel.name for kernel in SEEN.kernels] == ["early", "late", "triton", "nobody's"] and SEEN.base_ns == 5
    assert [SEEN.launch_of(kernel).name for kernel in (early, late, triton)] == [
        "cudaLaunchKernel",
        "cuLaunchKernelEx",
        "cuLaunchKernel",
    ]
    assert SEEN.launch_of(early).thread == 9 and SEEN.launch_of(nobodys) is None
    assert SEEN.operator_of(early) == SEEN.operator_of(late) == SEEN.operators[1]
    assert SEEN.operator_of(triton) is SEEN.operator_of(nobodys) is None
    assert len(SEEN.launches) == 4 and len(SEEN.events) == 13
    assert (early.process, early.end_us) == (3, 308)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_on_a_gpu_kernels_and_their_operators_are_those_that_torch_ties_together():
    layer = torch.nn.Linear(64, 64, device="cuda")
    x = torch.rand(8, 64, device="cuda")
    torch.cuda.synchronize()
    with profiling("cuda") as profiler:
        layer(x).relu().sum().backward()
        torch.zeros(4, device="cuda").zero_()
        torch.cuda.synchronize()
    trace, listed = read(profiler), list(profiler.events())
    on_gpu = [e for e in listed if e.device_type == DeviceType.CUDA and not getattr(e, "is_user_annotation", False)]
    wanted = sorted((e.name, round(e.time_range.elapsed_us(), 3)) for e in on_gpu if not e.name.startswith("Mem"))
    assert sorted((kernel.name, round(kernel.duration_us, 3)) for kernel in trace.kernels) == wanted
    tied = Counter(e.name for e in listed if e.device_type == DeviceType.CPU for _ in e.kernels)
    launched = defaultdict(int)
    for work in trace.of("kernel", "gpu_memcpy", "gpu_memset"):
        launched[trace.operator_of(work).name] += 1
    assert dict(tied) == dict(launched)
    assert all(trace.launch_of(kernel).end_us <= kernel.end_us for kernel in trace.kernels)
