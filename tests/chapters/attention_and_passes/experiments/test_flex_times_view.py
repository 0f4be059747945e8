"""Where nothing can be said of a way's growth with the length; chapter 22 shows where something can."""

from chapters.attention_and_passes.experiments import flex_times_view


def row(length, ms):
    times = {"median_ms": ms, "low_ms": ms * 0.9, "high_ms": ms * 1.1}
    return {"way": "a", "length": length, "part": "forward", **times}


def test_growth_is_of_a_doubling_and_only_where_quartiles_are_apart():
    assert flex_times_view.growth([row(512, 1.0), row(1024, 1.1)], "forward") == {}
    assert flex_times_view.growth([row(512, 1.0), row(2048, 9.0)], "forward") == {}
