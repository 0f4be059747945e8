"""One line of Python is found again at every stage, and shown."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from compile_lab.report.line import follow

pytestmark = pytest.mark.processes


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.norm = nn.Linear(16, 32), nn.LayerNorm(32)

    def forward(self, x):
        y = self.up(x)
        y = F.gelu(y, approximate="tanh")
        return self.norm(y)


@pytest.fixture(scope="module")
def trail():
    torch.manual_seed(0)
    return follow(Layer(), torch.randn(8, 16), chip="H200")


def test_a_line_is_found_at_every_stage(trail):
    lines = ["y = self.up(x)", 'y = F.gelu(y, approximate="tanh")', "return self.norm(y)"]
    assert [each.line.text for each in trail.lines] == lines, "in the order of the source"
    gelu = trail["F.gelu"]
    assert gelu.captured == ("y_1 = gelu",)
    assert all("aten.tanh" in [node.op for node in nodes] for nodes in (gelu.forward, gelu.backward, gelu.recomputed))
    assert {node.direction for node in gelu.backward} == {"backward"}
    directions = {kernel.direction for kernel in gelu.kernels if kernel.computing(gelu.line)}
    assert directions == {"forward", "backward"}
