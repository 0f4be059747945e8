"""The collectives of a compiled step, scheduled on virtual GPUs and drawn."""

import functools

import pytest
from fsdp_step import step_on

from chapters.load_bearing.step_collectives_view import orders, table
from compile_lab.devices.step_collectives import (
    WAYS,
    GraphCollective,
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
    assert "in buckets" in repr(table(found))


def drawn():
    gather = GraphCollective("all_gather", 4000, "float32", 0, 2, 1)
    late = GraphCollective("reduce_scatter", 4000, "float32", 1, 2, 0)
    return StepCollectives(
        (
            GraphOrder(("AG0", "MM", "w0", "k"), (gather,), 100),
            GraphOrder(("MM", "RS0", "w0"), (late,), 10),
        )
    )


def test_a_line_from_start_to_wait_red_where_nothing_can_hide_it():
    picture = orders({"one way": drawn()}, "caption")
    assert "1 all-gather; 1 reduce-scatter; 50 % of the bytes" in picture.alt and "caption" in picture._repr_html_()
    assert picture.svg.count("before its wait") == 2 and "all-gather, 4 kB, float32, 1 products" in picture.svg
    blue, red = (picture.svg.split("<rect")[at].split("fill='")[1][:7] for at in (1, 2))
    assert blue != red
    with pytest.raises(ValueError, match="none is number 2"):
        orders({"one way": drawn()}, graphs=(2,))
    with pytest.raises(ValueError, match="no way is given"):
        orders({})
    assert "50 %" in repr(table({"one way": drawn()}))
