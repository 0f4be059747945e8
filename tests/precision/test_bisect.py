"""The search finds a planted divergence, and says which line it is."""

import pytest
import torch
from torch._inductor.custom_graph_pass import CustomGraphPass

from compile_lab.precision import bisect
from compile_lab.precision.bisect import first_divergence

pytestmark = pytest.mark.processes


class Planted(CustomGraphPass):
    """Puts a tanh where the graph has a sigmoid."""

    def __call__(self, graph):
        for node in graph.nodes:
            if node.target is torch.ops.aten.sigmoid.default:
                node.target = torch.ops.aten.tanh.default

    def uuid(self):
        return "a planted error"


def calm(a):
    h = a * 2
    h = h + 1
    h = h.sigmoid()
    h = h * 4
    return h - 1


def test_a_planted_error_is_found_at_its_line():
    found = first_divergence(calm, torch.randn(64), tolerance=1e-4, options={"post_grad_custom_post_pass": Planted()})
    assert found.first.operator == "sigmoid" and "h = h.sigmoid()" in found.first.line.text
    assert found.first.compiled > 0.01 > found.first.eager
    assert "eager is closer" in str(found) and len(found.tried) < len(found.nodes)


def test_where_nothing_differs_one_compile_is_enough():
    found = first_divergence(calm, torch.randn(64), tolerance=1e-4)
    assert found.first is None and len(found.tried) == 1 and "no result" in str(found)


@pytest.mark.parametrize("first", [None, 0, 5])
def test_the_search_ends_between_two_neighbours(first):
    asked = []
    found = bisect._searched(7, lambda at: asked.append(at) or (first is not None and at >= first))
    assert found == first and len(asked) <= 4
