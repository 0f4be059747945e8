"""The book's thread: what a chapter's rungs give, said from the recording, and what is not told apart said so."""

import pytest

from chapters.shared.slow_step_view import way

FOUND = {
    "batch": 2, "length": 500, "layers": 12, "dim": 768,
    "rungs": [
        {"name": name, "vocabulary": 50257, "median_ms": ms, "low_ms": low, "high_ms": high}
        for name, ms, low, high in (
            ("first", 400.0, 399.0, 401.0),
            ("bf16", 100.0, 99.0, 101.0),
            ("graph", 100.5, 99.5, 101.5),
            ("head", 150.0, 149.0, 151.0),
        )
    ],
}  # fmt: skip


def test_what_overlaps_is_not_told_apart_and_what_is_slower_is_said():
    assert "not told apart: 100 (99 to 101) and 100.5 (99.5 to 101.5)" in way(FOUND, "graph").alt
    assert way(FOUND, "head").title.endswith("1.49× as slow.")


@pytest.mark.parametrize(
    ("names", "error", "words"),
    [
        ((), ValueError, "no rung is named"),
        (("steam",), KeyError, "no rung of this recording"),
        (("first",), ValueError, "where the ladder begins"),
    ],
)
def test_what_is_no_way_is_refused(names, error, words):
    with pytest.raises(error, match=words):
        way(FOUND, *names)
