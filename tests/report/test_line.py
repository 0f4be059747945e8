"""One line of Python is found again at every stage, and shown."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from compile_lab.report import line_view as follow_view
from compile_lab.report.line import follow


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


def test_each_line_is_followed_in_the_order_of_the_source(trail):
    assert [each.line.text for each in trail.lines] == [
        "y = self.up(x)",
        "y = F.gelu(y)",
        "return self.norm(y)",
    ]


def test_a_line_is_found_at_every_stage(trail):
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


def test_the_explorer_shows_each_line_and_marks_its_code(trail):
    explorer = follow_view.explorer(trail)
    assert len(explorer) == 2 * len(trail.lines)
    option = next(option for option in explorer.axes["line"] if "gelu" in option)
    shown = repr(explorer.show(line=option, kernels="forward"))
    assert "▶         y = F.gelu(y)" in shown or "▶     y = F.gelu(y)" in shown
    assert "▶     tmp" in shown and "Dynamo captures" in shown and "lines …" in shown


def test_a_kernel_that_cannot_be_told_apart_is_shown_whole(trail):
    kernel = next(kernel for kernel in trail.code.kernels if kernel.language == "triton")
    assert follow_view.folded(kernel, ()).source == kernel.body
    marked = follow_view.folded(kernel, [len(kernel.body.split("\n"))])
    assert len(marked.source.split("\n")) == 3 and list(marked.mark) == [3]
