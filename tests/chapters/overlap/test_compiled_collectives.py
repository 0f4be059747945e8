"""What Inductor moves and joins in a sharded step, as the chapter shows it."""

import pytest
from sharded_steps import pretended_mesh, step_orders

from compile_lab.devices.compiled_collectives import BUCKETED, REORDERED
from compile_lab.simulator import wire


@pytest.fixture
def mesh():
    with pretended_mesh() as made:
        yield made


def without_kernels(graph):
    return " ".join(token for token in graph if token != "k")


@pytest.mark.slow
def test_inductor_moves_and_joins_the_collectives_of_a_sharded_step(mesh):
    plain, moved, joined = (step_orders(mesh, options) for options in ({}, REORDERED, BUCKETED))
    starts = [[[token for token in graph if token[:2] in ("AG", "RS")] for graph in each] for each in (plain, joined)]
    assert [len(graph) for graph in starts[0]] == [3, 3] and [len(graph) for graph in starts[1]] == [1, 1]
    assert without_kernels(moved[0]) == "AG0 AG1 AG2 w0 MM w1 MM w2 MM"
    for each in (plain, moved, joined):
        assert [graph.count("MM") for graph in each] == [3, 5]
    assert wire.step_of(moved[0], 1.0, 1.0).span_ms == 4
