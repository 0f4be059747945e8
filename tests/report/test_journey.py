"""The journey of one line: a handful of real lines from each stage, and what is said of them."""

import re

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from compile_lab.page.figures import Drawing
from compile_lab.report import journey_view, listings
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


def test_what_was_measured_is_the_last_stage(trail):
    measured = Drawing("<svg></svg>", "two lanes", "a caption")
    road = journey_view.road(trail, "F.gelu", "gelu", "tanh", measured=measured)
    assert road._repr_html_().count("<li>") == 9 and repr(road).endswith("GPU timeline: two lanes\na caption")
    sizes = re.findall(r"<small>(.*?)</small>", road._repr_html_())
    assert sizes[0] == "1 line" and sizes[-1] == "measured" and all(re.match(r"[1-9]", size) for size in sizes[:-1])


def test_what_no_kernel_computes_is_refused(trail):
    with pytest.raises(ValueError, match="op='erf'"):
        journey(trail, "F.gelu", "gelu", "erf")
    with pytest.raises(ValueError, match="no kernel that Inductor wrote"):
        journey(trail, "self.up", "up", "addmm")


def test_it_is_plain_html_without_a_script(trail):
    shown = journey_view.road(trail, "F.gelu", "gelu", "tanh", source="made here")
    page = shown._repr_html_()
    assert page.startswith('<ol class="lab-journey">') and page.count("<li><h4>") == 8 == page.count("<pre")
    assert "<script" not in page and "<b>" in page and "made here" in page
    assert "▶" in repr(shown) and re.search(r"Launches, \d+ kernels: A training step launches", repr(shown))


def test_a_window_stands_around_what_is_named():
    listing = Listing(("a", "b", "c", "d", "e"), (2, 4))
    assert listing.around("d", 1, 1) == Listing(("c", "d", "e"), (2,))
    assert listing.around("nothing", 1, 0) == Listing(("a", "b"), (2,))
    assert Listing(("a", "b", "c", "d", "e"), (3,)).shortened(0) == Listing(("⋮ 2 more", "c", "⋮ 2 more"), (2,))
