"""The journey of one line: a handful of real lines from each stage, and what is said of them."""

import re

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from compile_lab.report import listings
from compile_lab.report.line import follow
from compile_lab.report.listings import Listing
from compile_lab.report.steps import journey


class Bent(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(16, 32)

    def forward(self, x):
        y = self.up(x)
        return F.gelu(y, approximate="tanh").sum()


@pytest.fixture(scope="module")
def trail():
    torch.manual_seed(0)
    return follow(Bent(), torch.randn(8, 16), chip="H200")


@pytest.fixture(scope="module")
def found(trail):
    return journey(trail, "F.gelu", "gelu", "tanh")


def test_each_stage_shows_a_few_of_its_own_lines(found, trail):
    steps = {step.stage: step for step in found.steps}
    stages = ["Python", "Bytecode", "FX graph", "Joint graph", "Schedule", "Triton", "PTX", "Launches"]
    assert list(steps) == stages
    assert all(1 <= len(step.excerpt.lines) <= 7 and step.excerpt.lit for step in found.steps)
    assert any("gelu" in line for line in steps["Bytecode"].excerpt.lines)
    kernel = listings.main_kernel(trail["F.gelu"], "forward")
    assert set(steps["Triton"].excerpt.lines) <= set(kernel.body.split("\n"))
    assert any(".approx" in line for line in steps["PTX"].excerpt.lines)


def test_both_directions_stand_in_the_joint_graph(found):
    (step,) = (step for step in found.steps if step.stage == "Joint graph")
    assert sum("aten.tanh" in line for line in step.excerpt.lines) == 2 and listings.LEFT_OUT in step.excerpt.lines
    forward, backward = map(int, re.findall(r"(\d+) (?:operations, and|more)", step.told))
    assert backward > forward > 5


def test_what_no_kernel_computes_is_refused(trail):
    with pytest.raises(ValueError, match="op='erf'"):
        journey(trail, "F.gelu", "gelu", "erf")
    with pytest.raises(ValueError, match="no kernel that Inductor wrote"):
        journey(trail, "self.up", "up", "addmm")


def test_a_window_stands_around_what_is_named():
    listing = Listing(("a", "b", "c", "d", "e"), (2, 4))
    assert listing.around("d", 1, 1) == Listing(("c", "d", "e"), (2,))
    assert listing.around("nothing", 1, 0) == Listing(("a", "b"), (2,))
    assert Listing(("a", "b", "c", "d", "e"), (3,)).shortened(0) == Listing(("⋮ 2 more", "c", "⋮ 2 more"), (2,))
