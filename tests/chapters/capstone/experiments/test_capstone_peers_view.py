"""What the page says of the peer's other ways is what the recording holds."""

import pytest

from chapters.capstone.experiments import capstone_peers_view as view
from compile_lab.recordings import load


@pytest.fixture(scope="module")
def recording():
    return load("capstone_peers")


def test_each_step_that_was_timed_has_its_row_and_the_slowest_comes_first(recording):
    rows = view.timed(recording)
    assert {view.DEFAULT, view.TUNED, view.FLOAT8, "peer", "padded", "hand", "all fp8"} == set(rows)
    times = [row["median_ms"] for row in rows.values()]
    assert times == sorted(times, reverse=True)
    assert [row[0] for row in view.picture(recording).table.rows] == list(rows)
    assert {each["name"] for each in recording.result["stopped"]} == {"peer, FlashAttention-3"}


def test_float8_saves_in_products_and_pays_around_them(recording):
    rows = view.timed(recording)
    assert view.around(rows[view.FLOAT8], rows[view.DEFAULT]) > 10 > view.around(rows["all fp8"], rows["hand"]) > 0
    assert view.around(rows["hand"], rows["hand"]) == 0


def test_the_two_paragraphs_have_the_recordings_numbers(recording):
    tuning, float8 = view.told(recording)
    rows = view.timed(recording)
    assert all(f"{rows[name]['median_ms']:.1f}" in tuning for name in (view.DEFAULT, view.TUNED, "hand"))
    assert f"{rows[view.FLOAT8]['median_ms']:.1f} ms, more than in bf16" in float8
    assert rows[view.FLOAT8]["low_ms"] > rows[view.DEFAULT]["high_ms"], "the sentence says more"
