"""One line of Python is found again at every stage, and shown."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from compile_lab.report import line_view as follow_view
from compile_lab.report.line import follow

pytestmark = pytest.mark.processes


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.norm = nn.Linear(16, 32), nn.LayerNorm(32)

    def forward(self, x):
        y = self.up(x)
        y = F.gelu(y)
        return self.norm(y)


@pytest.fixture(scope="module")
def trail():
    torch.manual_seed(0)
    return follow(Layer(), torch.randn(8, 16), chip="H200")


def test_a_line_is_found_at_every_stage(trail):
    lines = ["y = self.up(x)", "y = F.gelu(y)", "return self.norm(y)"]
    assert [each.line.text for each in trail.lines] == lines, "in the order of the source"
    gelu = trail["F.gelu"]
    assert gelu.captured == ("y_1 = gelu",)
    assert "aten.erf" in [node.op for node in gelu.forward] and "aten.exp" in [node.op for node in gelu.backward]
    assert "aten.erf" in [again.op for again in gelu.recomputed]
    directions = {kernel.direction for kernel in gelu.kernels if kernel.computing(gelu.line)}
    assert directions == {"forward", "backward"}


def test_the_matmul_belongs_to_its_line_and_to_a_library(trail):
    linear = trail["self.up"]
    assert any(kernel.language == "extern" for kernel in linear.kernels)
    assert any(saved.title == "x" or saved.op == "input" for saved in linear.saved)


def test_a_text_that_no_line_or_several_have_is_refused(trail):
    with pytest.raises(KeyError, match="0 lines contain 'relu'"):
        trail["relu"]
    with pytest.raises(KeyError, match="2 lines contain 'y = '"):
        trail["y = "]


@pytest.fixture(scope="module")
def explorer(trail):
    return follow_view.explorer(trail)


def columns(explorer, text):
    option = next(option for option in explorer.axes["line"] if text in option)
    side_by_side, kept, launches = explorer.show(line=option).pieces
    return {column.stage: column for column in side_by_side.columns}, kept, launches


def test_the_line_is_lit_in_every_stage_forward_and_backward(explorer, trail):
    assert len(explorer) == len(trail.lines)
    shown, kept, launches = columns(explorer, "gelu")
    assert len(shown) == 9 and all(column.listing.lit for column in shown.values())
    lit = {stage: [column.listing.lines[at - 1] for at in column.listing.lit] for stage, column in shown.items()}
    assert lit["Python"] == ["    y = F.gelu(y)"] and lit["FX graph (Dynamo)"] == ["y_1 = gelu(y)"]
    assert any("aten.erf" in text for text in lit["joint graph, forward"])
    assert any("aten.exp" in text for text in lit["joint graph, backward"])
    assert any("libdevice.erf" in text for text in lit["Triton, forward"])
    assert lit["PTX, backward"] and all(text.endswith(";") for text in lit["PTX, backward"])
    assert "Computed again there" in kept and "erf" in kept
    assert {row[0] for row in launches.rows} == {"forward", "backward"}


def test_a_line_that_a_library_computes_says_so(explorer):
    shown, *_ = columns(explorer, "self.up")
    assert "a library's" in shown["Triton, forward"].listing.lines[0]
    assert shown["PTX, forward"].told == "none: a library computes it"


def test_a_kernel_that_cannot_be_told_apart_is_shown_whole(trail):
    kernel = next(kernel for kernel in trail.code.kernels if kernel.language == "triton")
    count = len(kernel.body.split("\n"))
    assert len(follow_view.folded(kernel, ()).lines) == count
    marked = follow_view.folded(kernel, [count])
    assert len(marked.lines) == 2 and marked.lit == (2,) and marked.lines[0] == f"⋮ {count - 1} more"
