"""The search finds a planted divergence, says which line it is, and refuses what it cannot search."""

import pytest
import torch
from torch._inductor.custom_graph_pass import CustomGraphPass

from compile_lab.precision import bisect
from compile_lab.precision.bisect import BisectError, first_divergence

pytestmark = pytest.mark.processes

FILE = """
import torch

def chain(a, b):
    h = torch.relu(a)
    h = h * b
    h = h + a
    return torch.sigmoid(h)

def inputs():
    torch.manual_seed(0)
    return torch.randn(512, dtype=torch.bfloat16), torch.randn(512, dtype=torch.bfloat16)
"""


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


@pytest.mark.parametrize("first", [None, 0, 1, 5, 6])
def test_the_search_ends_between_two_neighbours(first):
    asked = []
    found = bisect._searched(7, lambda at: asked.append(at) or (first is not None and at >= first))
    assert found == first and len(asked) <= 4


def test_the_command_names_line_and_operator_of_a_bf16_chain(tmp_path, capsys):
    file = tmp_path / "chain.py"
    file.write_text(FILE)
    assert bisect.main([f"{file}:chain"]) == 0
    said = capsys.readouterr().out
    assert "first to differ: add" in said and "chain.py, line 7: h = h + a" in said and "compiled is closer" in said


@pytest.mark.parametrize(
    "target, text, message",
    [
        ("chain", None, "is not FILE:FUNCTION"),
        ("{}/none.py:chain", None, "there is no such file"),
        ("{}/a.py:chain", "x = (", "importing it fails"),
        ("{}/a.py:chain", "def other(): pass", "no function 'chain'; there is other"),
        ("{}/a.py:chain", "def chain(x): pass", "has no inputs"),
        ("{}/a.py:chain", "def chain(x): pass\ndef inputs(): return [1]", "returned a list"),
    ],
)
def test_a_bad_target_is_told_on_stderr(tmp_path, capsys, target, text, message):
    if text is not None:
        (tmp_path / "a.py").write_text(text)
    assert bisect.main([target.format(tmp_path)]) == 2
    assert message in capsys.readouterr().err


def test_what_is_no_whole_graph_is_refused():
    with pytest.raises(BisectError, match="is not one graph"):
        first_divergence(lambda x: print(x), torch.ones(2))
    with pytest.raises(BisectError, match=r"nothing of torch|nothing to judge"):
        first_divergence(lambda x: x, torch.ones(2))
    with pytest.raises(ValueError, match="tolerance"):
        first_divergence(calm, torch.ones(2), tolerance=-1.0)
