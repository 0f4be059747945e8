"""Chapter 00's queue: each tempting answer is told the call at which it goes wrong, and a right one passes."""

import pytest
import torch
from answers import judged_as

from chapters.eager_baseline.in_page import LINES, OPERATORS, _ends
from compile_lab.eager.dispatch import log


def test_torch_runs_as_many_operators_as_the_judge_of_00_1_says():
    found = log(lambda x, w, b: x @ w.T + b, torch.rand(3, 4), torch.rand(5, 4), torch.rand(5))
    assert found.below_autograd == OPERATORS


def ends(calls, *, waits=True, from_begin=False, one_launch_each=False, all_of_it=False, in_step=False):
    """A right answer, and with each switch one that is nearly right."""
    cpu = gpu = busy = 0
    for call in calls:
        if call == "item":
            cpu = (cpu + busy if all_of_it else max(cpu, gpu)) if waits else cpu
            continue
        issue, kernels = call
        begun, cpu = cpu, cpu + issue
        for at, kernel in enumerate(kernels):
            cpu += issue if one_launch_each and at else 0
            gpu = max(gpu, begun if from_begin else cpu) + kernel
            busy += kernel
        cpu = max(cpu, gpu) if in_step else cpu
    return cpu, gpu


test_a_wrong_answer_is_told_what_is_wrong_with_it = judged_as(
    (lambda calls: ends(calls, waits=False), "[(5, (20,)), 'item'] it has the CPU done too early: item waits"),
    (lambda calls: ends(calls, from_begin=True), "the GPU done too early: a kernel starts once"),
    (lambda calls: ends(calls, one_launch_each=True), "one launch of a graph brings several kernels"),
    (lambda calls: ends(calls, all_of_it=True), "CPU done too late: item has nothing to wait for here"),
    (lambda calls: ends(calls, in_step=True), "[(5, (3,))] it has the CPU done too late"),
    (lambda calls: ends([call for call in calls if call == "item" or call[1]]), "a view launches nothing"),
    (lambda calls: (float("nan"), 0), "it has the CPU done too"),
    (lambda calls: max(ends(calls)), "two times, (cpu_us, gpu_us)"),
    name="00.5",
)


@pytest.mark.parametrize("calls", [calls for calls, _ in LINES], ids=str)
def test_the_judges_own_times_are_those_of_a_walk_from_call_to_call(calls):
    assert _ends(calls) == ends(calls)


test_a_wrong_count_or_a_wrong_rewrite_is_told_what_is_wrong_with_it = judged_as(
    ("00.2", lambda x, y, b: b.addcmul_(x, y, value=0.5), "an input was overwritten"),
    ("00.2", lambda x, y, b: x, "the result is not"),
    ("00.3", lambda x: x, "not the starter's"),
    ("00.4", lambda x: x.sin().cos(), "2 times, not once"),
)
