"""Ratios on one scale: where a square stands says who was faster."""

import re

from chapters.backward_fusion.experiments import backward_fusion_view as view
from chapters.backward_fusion.experiments import ratios_view
from compile_lab import recordings

FOUND = recordings.load("backward_fusion")
NORMS = [case for case in FOUND.result["cases"] if case["chain"] == "norm of gelu"]


def squares(drawing):
    titles = r"x='([\d.]+)'[^>]*fill='(#\w+)'[^>]*><title>(.*?): (?:([\d.]+)×|not told apart)"
    found = re.findall(titles, drawing.svg)
    return [(float(x), colour, name, float(ratio) if ratio else None) for x, colour, name, ratio in found]


def test_a_square_stands_right_of_the_line_if_compiled_code_is_faster():
    found = squares(ratios_view.whole(NORMS, FOUND.provenance))
    assert len(found) == len(NORMS)
    line = ratios_view._at(1) - ratios_view.SIDE / 2
    assert all((x > line) == (ratio > 1) for x, _, _, ratio in found if ratio and abs(ratio - 1) > 0.02)
    grey = [ratio for _, colour, _, ratio in found if colour == "#7A7A7A"]
    assert not any(grey), "a ratio is named of times that are told apart alone"
    assert len(grey) == sum(view.change(case) == "no difference" for case in NORMS) > 0


def test_outside_the_products_stands_beside_the_whole():
    drawing = ratios_view.whole_and_outside(NORMS, FOUND.result["copy_gb_per_s"], FOUND.provenance)
    found = squares(drawing)
    assert len(found) == 2 * len(NORMS) and len(drawing.table.rows) == len(NORMS)
    best = max(ratio for _, _, name, ratio in found if name.endswith("outside"))
    assert abs(best - max(map(ratios_view.outside_ratio, NORMS))) < 0.01
