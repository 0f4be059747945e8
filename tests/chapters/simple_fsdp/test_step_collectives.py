"""The collectives of a compiled step, scheduled on virtual GPUs; what cannot be drawn of them is refused."""

import functools

import pytest
from fsdp_step import step_on

from chapters.shared.overlap_compiled_view import RankStep
from chapters.simple_fsdp.schedule_view import on_paper, who_schedules
from chapters.simple_fsdp.step_collectives_view import orders
from compile_lab.devices.step_collectives import WAYS, GraphOrder, StepCollectives, in_buckets, on_virtual_gpus


@pytest.mark.slow
def test_on_virtual_gpus_the_compiler_schedules_by_its_own_estimates():
    ways = {"as it is": {}, "in buckets": in_buckets(0.04), "scheduled": WAYS["scheduled"]}
    build = functools.partial(step_on, device="cuda")
    found = {name: on_virtual_gpus(build, 8, options) for name, options in ways.items()}
    assert len({each.nbytes for each in found.values()}) == 1
    assert [each.count("all_gather") for each in found.values()] == [4, 2, 1]
    assert found["as it is"].covered_nbytes == 0 < found["scheduled"].covered_nbytes


ONE = {"one way": StepCollectives((GraphOrder(("AG0", "MM", "w0"), (), 100),))}
BY_HAND = {case: RankStep(70, 69, 71, 35, 1.0, 4) for case in ("FSDP2, eager", "DDP")}
REFUSED = [
    (lambda: orders(ONE, graphs=(2,)), "none is number 2"),
    (lambda: orders({}), "no way"),
    (lambda: who_schedules(BY_HAND), "scheduled by the compiler"),
    (lambda: on_paper({}, 1, 1.0, 1.0, 0.0), "no order"),
]


@pytest.mark.parametrize(("call", "words"), REFUSED, ids=[words for _, words in REFUSED])
def test_what_cannot_be_drawn_is_refused(call, words):
    with pytest.raises(ValueError, match=words):
        call()
