"""The road from lines of Python to launches, as a picture: what it counts is what Inductor did."""

import pytest
import torch
import torch.nn.functional as F

from chapters.inductor_codegen import road_view
from compile_lab.inductor.generated import generated_code


def bent(x, weight):
    y = F.linear(x, weight)
    return F.gelu(y).sum()


@pytest.fixture(scope="module")
def code():
    return generated_code(bent, torch.randn(8, 16), torch.randn(24, 16, requires_grad=True), chip="H200")


def test_every_launch_is_a_box_and_every_operation_a_square(code):
    svg = road_view.road(code).svg
    operations = sum(len(road_view.computing(graph)) for graph in code.graphs)
    inside = sum(len(kernel.computed) for kernel in code.kernels)
    lines = {line for kernel in code.kernels for line in kernel.lines}
    assert svg.count("<rect") == len(lines) + operations + inside + len(code.kernels)
    assert svg.count("stroke-dasharray") == sum(kernel.language == "extern" for kernel in code.kernels)


def test_the_alternative_text_and_the_table_say_the_counts(code):
    drawing = road_view.road(code)
    forward, backward = code.graphs
    assert f"after fusion {len(forward.kernels)} launches" in drawing.alt
    assert drawing.alt.startswith("2 lines of Python.") and f"{len(backward.kernels)} launches" in drawing.alt
    assert [row[3] for row in drawing.table.rows] == [len(forward.kernels), len(backward.kernels)]
