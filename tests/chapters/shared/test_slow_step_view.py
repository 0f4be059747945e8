"""The book's thread: what a chapter's rungs give, if two are not told apart or one is slower; chapters show others."""

import pytest

from chapters.shared.slow_step_view import text, way

TIMES = {"first": 400.0, "bf16": 100.0, "graph": 100.5, "head": 150.0}
FOUND = {"rungs": [{"name": name, "median_ms": ms, "low_ms": ms - 1, "high_ms": ms + 1} for name, ms in TIMES.items()]}


def test_what_overlaps_is_not_told_apart_and_what_is_slower_is_said():
    assert "not told apart: 100 (99 to 101) and 100.5 (99.5 to 101.5)" in text(FOUND, "graph")
    assert text(FOUND, "head").endswith("1.49× as slow")


REFUSED = [((), "no rung is named"), (("steam",), "no rung of this recording"), (("first",), "where the ladder begins")]


@pytest.mark.parametrize(("names", "words"), REFUSED)
def test_what_is_no_way_is_refused(names, words):
    with pytest.raises((ValueError, KeyError), match=words):
        way(FOUND, *names)
