"""FlexAttention's recording drawn: a line a way on logarithmic axes, and how a way grows with the length."""

import pytest

from chapters.attention_and_passes.experiments import flex_times_view


def row(way, length, ms, part="forward"):
    times = {"median_ms": ms, "low_ms": ms * 0.9, "high_ms": ms * 1.1}
    return {"way": way, "length": length, "part": part, **times, "peak_nbytes": length * 1000, "error": None}


ROWS = [
    *(row("flex, window", length, length / 100) for length in (2048, 512, 1024)),
    *(row("scores in full", length, length**2 / 1e5) for length in (512, 1024)),
    row("mask, causal", 512, 1.0, "made"),
]


def test_growth_is_of_a_doubling_and_only_where_quartiles_are_apart():
    assert flex_times_view.growth(ROWS, "forward") == pytest.approx({"flex, window": 2, "scores in full": 4})
    assert flex_times_view.growth([row("a", 512, 1.0), row("a", 1024, 1.1)], "forward") == {}
    assert flex_times_view.growth([row("a", 512, 1.0), row("a", 2048, 9.0)], "forward") == {}
