"""Launches as boxes: as many as there are, and as wide as their bytes."""

import re

import pytest
import torch

from compile_lab.inductor import boxes_view
from compile_lab.inductor.generated import generated_code


def product(x, w):
    return (x @ w).relu().sum()


@pytest.fixture(scope="module")
def code():
    return generated_code(product, torch.randn(64, 128), torch.randn(128, 256, requires_grad=True), chip="H200")


def widths(svg):
    return [float(width) for width in re.findall(r"<rect [^>]*?width='([\d.]+)'", svg)]


def test_a_box_a_launch_as_wide_as_its_bytes(code):
    drawn = widths(boxes_view.launches(code, "forward").svg)
    nbytes = [kernel.nbytes for kernel in code.kernels if kernel.direction == "forward"]
    assert len(drawn) == len(nbytes) > 1
    largest = max(range(len(nbytes)), key=nbytes.__getitem__)
    assert drawn[0] / drawn[largest] == pytest.approx(nbytes[0] / nbytes[largest], rel=0.02)


def test_both_directions_or_several_cases_are_rows(code):
    both = boxes_view.launches(code)
    assert len(widths(both.svg)) == len(code.kernels) and "backward:" in both.alt
    cases = boxes_view.launches({"one": code, "two": code})
    assert len(widths(cases.svg)) == 2 * len(code.kernels) == len(cases.table.rows)


def test_fusion_is_a_row_before_and_a_row_after(code):
    drawing = boxes_view.fused(code)
    before = sum(group.kind != "nop" for graph in code.graphs for group in graph.before)
    assert len(widths(drawing.svg)) == before + len(code.kernels)
    assert "forward, entry by entry" in drawing.alt and "forward, fused" in drawing.alt
