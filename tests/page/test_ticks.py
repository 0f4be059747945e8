"""The names on a logarithmic axis: what was measured where that makes a scale, else round values, never too many."""

import random

import pytest

from compile_lab.page.figures import Series, lines
from compile_lab.page.ticks import MOST, ticks


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ([512, 1024, 4096, 16384, 32768], ["512", "1,024", "4,096", "16,384", "32,768"]),
        ([2**power for power in range(1, 11)], ["2", "8", "32", "128", "512"]),
        ([4, 4, 8, 16], ["4", "8", "16"]),
        ([1, 2, 3, 4, 90], ["1", "2", "5", "10", "20", "50"]),
        (range(1, 2001), ["1", "10", "100", "1,000"]),
    ],
)
def test_what_was_measured_is_named_where_it_makes_a_scale(values, named):
    assert ticks(values, measured=True)["ticktext"] == named


@pytest.mark.parametrize("seed", range(20))
def test_names_are_few_and_within_the_values(seed):
    draw = random.Random(seed)
    values = [10 ** draw.uniform(-12, 12) for _ in range(draw.randint(1, 30))]
    for measured in (True, False):
        at = ticks(values, measured).get("tickvals", [])
        assert len(at) <= MOST and at == sorted(set(at)) and all(min(values) <= each <= max(values) for each in at)
    assert len(ticks([1.0, *values, 1e9])["tickvals"]) > 1


def test_a_figures_logarithmic_axes_have_them_and_others_do_not():
    drawn = lines(Series("s", [64, 512], [0.3, 4.0]), x_title="n", y_title="ms", title=".", log_x=True, log_y=True).plot
    assert drawn.layout.xaxis.tickvals == (64, 512) and drawn.layout.yaxis.ticktext == ("0.5", "1", "2")
    plain = lines(Series("s", [64, 512], [0.3, 4.0]), x_title="n", y_title="ms", title=".").plot
    assert plain.layout.xaxis.tickvals is None and plain.layout.yaxis.rangemode == "tozero"
