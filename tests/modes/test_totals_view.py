"""Time against calls: what is marked agrees with the sums, on one scale for every workload."""

import pytest

from compile_lab.modes import totals_view
from compile_lab.modes.cost import Comparison, CompileTime, ModeCost, Quartiles


def cost(mode, median_ms, cold_s=None):
    compiled = cold_s and CompileTime(cold_s, {"Dynamo": cold_s})
    return ModeCost(mode, Quartiles(median_ms, median_ms, median_ms), compiled, compiled)


COSTS = {
    "eager": cost("eager", 10.0),
    "default": cost("default", 5.0, 10),  # pays after 2,000
    "reduce-overhead": cost("reduce-overhead", 11.0, 1),  # never
    "max-autotune": cost("max-autotune", 4.0, 60),  # pays after 10,000; passes default after 50,000
}
FOUND = Comparison("made up", "a workload", COSTS, "typed in", {"test_configs.max_mm_configs": 4})


@pytest.mark.parametrize("shown", totals_view.SCALES)
def test_break_evens_are_marked_where_the_lines_cross(shown):
    drawing = totals_view.totals(FOUND, shown=shown)
    assert "default 2,000, reduce-overhead never, max-autotune 10,000" in drawing.title
    assert "limited: at most 4" in drawing.caption
    lines = {line.series: line for line in totals_view._lines(FOUND, "cold", totals_view.SCALES[shown], named=True)}
    assert not lines["reduce-overhead"].marked and lines["default"].label == "2.00×"
    for mode, calls in (("default", 2000), ("max-autotune", 10_000)):
        eager = totals_view._value(FOUND, "eager", calls, "cold", totals_view.SCALES[shown])
        assert lines[mode].marked == [(calls, pytest.approx(eager))]


def test_another_start_or_scale_is_refused():
    with pytest.raises(ValueError, match="start is 'cold' or 'warm'"):
        totals_view.totals(FOUND, "tepid")
