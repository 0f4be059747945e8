"""Eager and compiled backward as boxes: bytes as they are counted, times as they were recorded."""

from chapters.backward_fusion.experiments import backward_road_view
from chapters.backward_fusion.experiments.fused_chain import EXAMINED
from compile_lab import recordings
from compile_lab.inductor.traffic import Launch, Traffic

TRAFFICS = {
    "eager": Traffic((Launch("backward", "mm", "matmul", 3_000_000), Launch("backward", "sum", "aten", 1_000_000)), ()),
    "compiled": Traffic((Launch("backward", "triton_poi_fused_0", "generated", 2_000_000),), ()),
}


def drawn():
    found = recordings.load("backward_fusion")
    case = next(c for c in found.result["cases"] if all(c[name] == value for name, value in vars(EXAMINED).items()))
    return case, backward_road_view.road(TRAFFICS, case, found.provenance)


def test_bytes_and_times_are_summed_for_each_way():
    case, drawing = drawn()
    assert "eager 2 launches and 4 MB, compiled 1 launch and 2 MB" in drawing.alt
    for way in TRAFFICS:
        taken = sum(kernel["us"] for kernel in case["variants"][way]["backward"]["kernels"])
        assert f"{taken:,.0f} µs" in drawing.alt


def test_a_kernel_that_is_launched_twice_is_two_boxes_and_a_row_each():
    case, drawing = drawn()
    kernels = sum(round(k["count"]) for way in TRAFFICS for k in case["variants"][way]["backward"]["kernels"])
    assert drawing.svg.count("<rect") == 3 + kernels == len(drawing.table.rows)
