"""Ratios on one scale: each case once, and those alone told apart whose quartiles are."""

from chapters.backward_fusion.experiments import backward_fusion_view as view
from chapters.backward_fusion.experiments import ratios_view
from compile_lab import recordings

FOUND = recordings.load("backward_fusion")
NORMS = [case for case in FOUND.result["cases"] if case["chain"] == "norm of gelu"]


def test_a_ratio_is_told_of_times_alone_that_are_told_apart():
    drawing = ratios_view.whole(NORMS, FOUND.provenance)
    undecided = sum(view.change(case) == "no difference" for case in NORMS)
    assert 0 < undecided == drawing.alt.count("(not told apart)")
    assert f"{undecided} not told apart" in drawing.title


def test_outside_the_matmuls_stands_next_to_the_whole():
    drawing = ratios_view.whole_and_outside(NORMS, FOUND.result["copy_gb_per_s"], FOUND.provenance)
    assert drawing.alt.count(ratios_view.OUTSIDE) == len(drawing.table.rows) == len(NORMS)
    assert f"{max(map(ratios_view.outside_ratio, NORMS)):.2f} times" in drawing.title
