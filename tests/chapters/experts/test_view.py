"""The routed layer as a reader sees it."""

from chapters.experts import view


def test_filled_boxes_say_what_is_dropped_and_padded():
    drawn = view.filled([160, 111, 78, 67, 47, 31, 14, 4], 256)
    assert drawn.alt.startswith("With boxes of 80 rows, 111 of 512 assignments are dropped, and 239 of 640 computed")


def test_the_road_has_two_places_that_depend_on_the_data():
    assert view.layer_chart().alt.count(" to ") == 6


def test_capacities_trade_drops_for_padding():
    drawn = view.capacities({"even": [8] * 8, "skewed": [57, 1, 1, 1, 1, 1, 1, 1]}, 32)
    assert "skewed drops" in drawn.alt and drawn.alt.count("dropped from") == 2
