"""What pages partition without torch is what torch makes today, and is partitioned as torch does it."""

import json
from pathlib import Path

import pytest
import torch

from chapters.memory_lifetimes.experiments import stored_graphs
from chapters.memory_lifetimes.stored import stored_graph
from chapters.shared import subjects
from compile_lab.aot import training_graphs
from compile_lab.memory import lifetimes
from compile_lab.simulator.joint_graphs import STORED, from_json
from compile_lab.simulator.joint_graphs import stored_graphs as graphs
from compile_lab.simulator.lifetimes import lived
from mini_model import model

pytestmark = pytest.mark.processes

SAME_TORCH = pytest.mark.skipif(
    {graph.torch for graph in graphs().values()} != {torch.__version__.partition("+")[0]},
    reason="the graphs are stored for another torch",
)


def agree(graph, module, inputs, budget):
    """torch's own partition at this budget, and the lives in it, are those of the plain Python."""
    step, found = lived(graph, budget), training_graphs(module, *inputs, memory_budget=budget)
    predicted = lifetimes(found)
    assert {graph.nodes[at].name for at in step.split.saved} == {each.name for each in found.saved}
    assert {graph.nodes[at].name for at in step.split.again} >= {each.name for each in found.recomputed}
    assert step.operations == tuple(moment.name for moment in predicted.timeline)
    assert step.live == tuple(moment.live_bytes for moment in predicted.timeline)
    assert (step.held_nbytes, step.peak_nbytes) == (predicted.held_nbytes, predicted.peak_nbytes)
    kinds = {each.name: each.kind for each in predicted.tensors if each.kind in ("activation", "gradient")}
    assert {each.name: each.kind for each in step.buffers if each.kind in ("activation", "gradient")} == kinds


def test_each_stored_line_stands_where_a_page_says_that_it_does():
    sources = {
        file.name: file.read_text("utf-8").splitlines() for file in map(Path, (model.__file__, subjects.__file__))
    }
    for file, number, text in {line for graph in graphs().values() for line in graph.lines}:
        assert text == sources[file][number - 1].strip(), f"{stored_graphs.__name__} writes {STORED} again"


@SAME_TORCH
@pytest.mark.slow
def test_the_stored_file_is_what_torch_gives_today():
    found = json.loads(stored_graphs.text(stored_graphs.stored()))
    assert found == json.loads(stored_graphs.PATH.read_text("utf-8")), (
        f"{STORED} is out of date: python -m chapters.memory_lifetimes.experiments.stored_graphs writes it again"
    )


@SAME_TORCH
@pytest.mark.slow
@pytest.mark.parametrize("budget", [1.0, 0.5, 0.1, 0.0])
@pytest.mark.parametrize("name", graphs())
def test_a_stored_graph_is_partitioned_and_lives_as_torch_has_it(name, budget):
    agree(graphs()[name], *stored_graphs.chosen()[name], budget)


@SAME_TORCH
@pytest.mark.parametrize("budget", [1.0, 0.6, 0.2, 0.0])
def test_so_is_a_graph_that_was_not_stored(budget):
    model = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.GELU(), torch.nn.Linear(64, 16), torch.nn.Tanh())

    def loss(x):
        return model(x).square().mean()

    x = torch.randn(32, 16)
    agree(from_json("here", json.loads(json.dumps(stored_graph(loss, x)))), loss, (x,), budget)


def test_what_changes_an_input_or_breaks_is_refused():
    norm = torch.nn.BatchNorm1d(4)
    with pytest.raises(ValueError, match="changes an input"):
        stored_graph(lambda x: norm(x).square().mean(), torch.randn(8, 4))
