"""A kernel's way down to the machine as a picture: a row a stage, with that stage's own counts."""

import pytest

pytest.importorskip("triton", reason="no triton for this platform")

from chapters.triton_to_ptx import road_view, view
from chapters.triton_to_ptx.experiments.softmax_kernel import row_kernel
from compile_lab.virtual_gpu.assembly import Config, assemble

pytestmark = pytest.mark.processes

ROW = {"out": "*bf16", "x": "*bf16", "columns": 512}


@pytest.fixture(scope="module")
def assembly():
    return assemble(row_kernel, "H200", Config({"BLOCK": 512}, 4), arguments=ROW)


def test_each_stage_says_how_many_lines_it_has(assembly):
    drawing = road_view.road(assembly)
    ptx = sum(len(assembly.lines["ptx"].get(line, ())) for line in view.statements(assembly).values())
    assert f"PTX {ptx}" in drawing.alt and f"{ptx} lines" in drawing.svg
    assert "Triton 8" in drawing.alt and len(drawing.table.rows) == 8


def test_the_registers_are_the_assemblys(assembly):
    drawing = road_view.road(assembly)
    if assembly.registers is None:
        pytest.skip("no ptxas in triton's wheel")
    assert f"takes {assembly.registers} of 255 registers" in drawing.alt
    assert f"{assembly.occupancy.warps} of 64 warps" in drawing.alt
