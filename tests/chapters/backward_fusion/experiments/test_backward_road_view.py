"""Eager and compiled backward: bytes as they are counted, times as they were recorded."""

from chapters.backward_fusion.experiments import backward_road_view
from chapters.backward_fusion.experiments.fused_chain import EXAMINED
from compile_lab import recordings
from compile_lab.inductor.traffic import Launch, Traffic

TRAFFICS = {
    "eager": Traffic((Launch("backward", "mm", "matmul", 3_000_000), Launch("backward", "sum", "aten", 1_000_000)), ()),
    "compiled": Traffic((Launch("backward", "triton_poi_fused_0", "generated", 2_000_000),), ()),
}


def test_bytes_and_times_are_summed_and_a_kernel_that_is_launched_twice_is_two():
    found = recordings.load("backward_fusion")
    case = next(c for c in found.result["cases"] if all(c[name] == value for name, value in vars(EXAMINED).items()))
    drawing = backward_road_view.road(TRAFFICS, case, found.provenance)
    kernels = [k for way in TRAFFICS for k in case["variants"][way]["backward"]["kernels"]]
    assert len(drawing.table.rows) == 3 + sum(round(kernel["count"]) for kernel in kernels)
    assert "moves 2.0 MB instead of 4.0 MB" in drawing.title
    for way in TRAFFICS:
        assert f"{sum(k['us'] for k in case['variants'][way]['backward']['kernels']):,.0f} µs" in drawing.title
