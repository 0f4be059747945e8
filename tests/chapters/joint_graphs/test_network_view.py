"""The partitioner's network: its cheapest cut is what is saved, and its price is what any other cut would exceed."""

import networkx
import pytest
import torch

from chapters.joint_graphs import cut_view, network_view
from compile_lab.aot import training_graphs


def leaf(*shape):
    return torch.randn(*shape, requires_grad=True)


def small(x, w):
    return (torch.sin(x) @ w).relu().sum()


def chain(x):
    return x.sin().exp().tanh().cos()


GIVEN = {small: (leaf(8, 4), leaf(4, 8)), chain: (leaf(1000),)}


@pytest.fixture(scope="module", params=GIVEN, ids=lambda fn: fn.__name__)
def graphs(request):
    return training_graphs(request.param, *GIVEN[request.param])


def test_what_is_cut_is_what_is_saved(graphs):
    cut = {pipe.name for pipe in graphs.network if pipe.side == "cut"}
    assert cut == {each.name for each in graphs.saved}
    again = {pipe.name for pipe in graphs.network if pipe.side == "sink"}
    assert {node.name for node in graphs.backward.nodes if node.recomputed} <= again


def test_the_cut_of_what_is_drawn_is_the_cheapest(graphs):
    network = networkx.DiGraph()
    for pipe in graphs.network:
        network.add_edge(f"{pipe.name} in", f"{pipe.name} out", capacity=pipe.capacity)
        network.add_edges_from((f"{pipe.name} out", f"{name} in") for name in pipe.after)  # of any width
        network.add_edges_from([("source", f"{pipe.name} in")] * bool(pipe.banned))
        network.add_edges_from([(f"{pipe.name} out", "sink")] * bool(pipe.needed))
    price = sum(pipe.capacity for pipe in graphs.network if pipe.side == "cut")
    assert networkx.minimum_cut_value(network, "source", "sink") == price
    assert network_view.cut_summary(graphs).endswith(f"{price:,.0f} in all.")


def long(x):
    for _ in range(8):
        x = x.sin().exp()
    return x


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda: network_view.network(training_graphs(chain, leaf(8), partitioner="default")), "'default' cut no"),
        (lambda: network_view.network(training_graphs(long, leaf(8))), "too many to draw"),
        (lambda: cut_view.kept(training_graphs(lambda x: x.sin().sum(), leaf(4))), "no byte"),
        (lambda: cut_view.decomposed({}), "no call"),
    ],
)
def test_what_there_is_nothing_or_too_much_of_to_draw_is_refused(call, word):
    with pytest.raises(ValueError, match=word):
        call()
