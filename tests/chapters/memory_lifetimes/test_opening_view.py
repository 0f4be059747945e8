"""The mountain of live bytes: its roof is the curve, its layers are what is alive at the peak."""

import re

import pytest
import torch

from chapters.memory_lifetimes.opening_view import HIGH, mountain
from compile_lab.memory import eager_lifetimes


@pytest.fixture(scope="module")
def found():
    layer = torch.nn.Linear(16, 64)
    x = torch.randn(32, 16)
    return eager_lifetimes(lambda: layer(x).exp().sin().sum().backward(), layer)


def test_the_roof_is_the_curve(found):
    drawing = mountain(found, "A step.")
    top = min(
        float(y) for path in re.findall(r"<path d='M([^']*)z'", drawing.svg) for y in re.findall(r" ([\d.]+)", path)
    )
    ground = 34 + HIGH
    assert (ground - top) / HIGH == pytest.approx(1 / 1.12, rel=0.01), "the peak ends under the ceiling"
    told = sum(float(number) for number in re.findall(r" ([\d.]+) kB", drawing.full_caption))
    assert told == pytest.approx(found.peak_nbytes / 1e3, rel=0.02), "what the caption lists is what is alive"


def test_the_largest_are_called_as_the_chapter_says(found):
    assert "the sine's gradient" in mountain(found, names=["the sine's gradient"]).alt
    with pytest.raises(ValueError, match="most is 4"):
        mountain(found, most=4)
