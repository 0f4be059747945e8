"""Launches as boxes: as many as there are, and as wide as their bytes."""

import re

import pytest
import torch

from compile_lab.inductor import boxes_view
from compile_lab.inductor.generated import generated_code
from compile_lab.inductor.traffic import eager_traffic, generated_traffic


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


def test_fusion_is_eager_the_schedule_and_what_fusing_made_of_it(code):
    x, w = (torch.empty(size, device="meta") for size in ((64, 128), (128, 256)))
    eager = eager_traffic(product, x, w.requires_grad_())
    drawing = boxes_view.fused(code, eager)
    before = sum(group.kind != "nop" for graph in code.graphs for group in graph.before)
    assert len(widths(drawing.svg)) == len(eager.launches) + before + len(code.kernels)
    assert all(f"forward, {way}" in drawing.alt for way in ("eager", "Inductor's schedule unfused", "fused"))
    graph = code.graphs[0]
    assert drawing.table.rows[0][4:] == (eager.nbytes("forward"), graph.unfused_nbytes, graph.fused_nbytes)


def test_launches_of_several_ways_are_rows_in_their_order(code):
    x, w = (torch.empty(size, device="meta") for size in ((64, 128), (128, 256)))
    ways = {"eager": eager_traffic(product, x, w.requires_grad_()), "compiled": generated_traffic(code)}
    drawing = boxes_view.moved(ways, "forward")
    assert [row[1] for row in drawing.table.rows if row[0] == "eager"] == ["mm", "relu", "sum"]
    assert len(widths(drawing.svg)) == sum(len(traffic.of("forward")) for traffic in ways.values())
    kinds = {"a library's matmul", "torch's own kernel", "a kernel that Inductor wrote"}
    assert {row[2] for row in drawing.table.rows} == kinds
