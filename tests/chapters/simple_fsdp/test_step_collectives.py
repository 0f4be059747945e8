"""The collectives of a compiled step, scheduled on virtual GPUs and drawn."""

import functools

import pytest
from fsdp_step import step_on

from chapters.simple_fsdp.step_collectives_view import orders
from compile_lab.devices.step_collectives import (
    WAYS,
    GraphOrder,
    StepCollectives,
    in_buckets,
    on_virtual_gpus,
)


@pytest.mark.slow
def test_on_virtual_gpus_the_compiler_schedules_by_its_own_estimates():
    ways = {"as it is": {}, "in buckets": in_buckets(0.04), "scheduled": WAYS["scheduled"]}
    build = functools.partial(step_on, device="cuda")
    found = {name: on_virtual_gpus(build, 8, options) for name, options in ways.items()}
    assert len({each.nbytes for each in found.values()}) == 1
    assert [each.count("all_gather") for each in found.values()] == [4, 2, 1]
    assert found["as it is"].covered_nbytes == 0 < found["scheduled"].covered_nbytes


def test_another_graph_and_no_way_are_refused():
    one = StepCollectives((GraphOrder(("AG0", "MM", "w0"), (), 100),))
    with pytest.raises(ValueError, match="none is number 2"):
        orders({"one way": one}, graphs=(2,))
    with pytest.raises(ValueError, match="no way"):
        orders({})
