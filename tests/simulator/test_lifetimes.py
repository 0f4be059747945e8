"""Cuts, knapsacks and lives in plain Python: against networkx, against torch's table, and against themselves."""

import random

import networkx
import pytest
from torch._functorch._activation_checkpointing.knapsack import dp_knapsack

from compile_lab.simulator.budget import _Network, _packed, saved
from compile_lab.simulator.joint_graphs import StoredGraph, stored_graphs
from compile_lab.simulator.lifetimes import lived

GRAPHS = stored_graphs()


@pytest.mark.parametrize("seed", range(30))
def test_the_cut_is_the_one_that_networkx_takes(seed):
    drawn = random.Random(seed)
    places = drawn.randint(4, 12)
    edges = {(drawn.randrange(places), drawn.randrange(places)): drawn.randint(1, 5) for _ in range(3 * places)}
    network, theirs = _Network(places), networkx.DiGraph()
    theirs.add_nodes_from(range(places))
    for (start, end), room in edges.items():
        if start != end:
            network.edge(start, end, room)
            theirs.add_edge(start, end, capacity=room)
    _, (_, near) = networkx.minimum_cut(theirs, 0, places - 1)
    network.fill(0, places - 1)
    assert network.reaching(places - 1) == near


@pytest.mark.parametrize("seed", range(30))
def test_the_knapsack_keeps_what_torchs_keeps_among_equals_too(seed):
    drawn = random.Random(seed)
    count = drawn.randint(1, 12)
    sizes = [drawn.choice((0.0, 0.00001, 0.05, 0.1, 0.125, 0.3)) for _ in range(count)]
    values = [drawn.choice((1, 1, 2**20, 12_582_912, 16_777_217)) for _ in range(count)]
    room = drawn.choice((0.0, 0.1, 0.33, 0.5, 0.99))
    assert sorted(_packed(sizes, values, room)) == dp_knapsack(sizes, values, room)[1]


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("budget", [1, 0.5, 0.1, 0])
def test_the_live_bytes_are_those_of_the_buffers(name, budget):
    step = lived(GRAPHS[name], budget)
    for at in range(0, len(step.live), 7):
        assert sum(each.nbytes for each in step.buffers if each.birth <= at <= each.death) == step.live[at]
    assert step.peak_nbytes == max(step.live) and step.held_nbytes <= step.peak_nbytes
    assert all(0 <= each.birth <= each.death <= len(step.live) for each in step.buffers)


@pytest.mark.parametrize("name", GRAPHS)
def test_a_smaller_budget_saves_no_more_and_runs_no_less_again(name):
    budgets = [at / 20 for at in range(21)]
    steps = [lived(GRAPHS[name], budget) for budget in budgets]
    assert [each.held_nbytes for each in steps] == sorted(each.held_nbytes for each in steps)
    assert steps[0].flops_again == max(each.flops_again for each in steps) and steps[-1].flops_again == 0
    assert steps[0].held_nbytes == 4, "with nothing saved, the loss is left"


def test_a_graph_with_nothing_to_save_saves_nothing():
    graph = next(iter(GRAPHS.values()))
    empty = StoredGraph("empty", "", (graph.nodes[graph.inputs[0]],), (), (), (), ())
    assert [saved(empty, budget) for budget in (0, 0.5, 1)] == [(0,), (), ()]
