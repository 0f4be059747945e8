"""Dots on one scale: where they stand, what stands for them in words, and what no axis can hold."""

import re

import pytest

from compile_lab.page import dots


def made(**options):
    return dots(["GPipe", "1F1B"], {"on paper": [10, 20], "measured": [40, None]}, unit="%", alt="Two rows.", **options)


def test_a_dot_stands_at_its_value_in_the_row_of_its_place():
    places = re.findall(r"<text x='([\d.]+)' y='([\d.]+)'[^>]*>([●■])</text>", made().svg)
    left = 16 * 5 + 12
    at = [(round((float(x) - left) / (985 - left) * 40), float(y), mark) for x, y, mark in places]
    assert at == [(10, 23, "●"), (40, 23, "■"), (20, 51, "●")]
    assert ">40 %</text>" in made().svg and ">GPipe</text>" in made().svg


def test_an_axis_ends_at_a_round_number_above_the_data():
    assert ">50 %</text>" in dots(["a"], {"x": [43.21]}, unit="%", alt="One.").svg
    assert ">0.012 s</text>" in dots(["a"], {"x": [0.0113]}, unit="s", alt="One.").svg
    assert ">1 %</text>" in dots(["a"], {"x": [0]}, unit="%", alt="None.").svg


def test_the_table_has_the_same_numbers_and_the_legend_each_mark():
    assert made().table.rows == [("GPipe", 10.0, 40.0), ("1F1B", 20.0, None)]
    assert "●</b> on paper" in made().legend and "■</b> measured" in made().legend


def test_what_no_axis_holds_is_refused():
    with pytest.raises(ValueError, match="from 10 to 40 are not all on an axis from 0 to 30"):
        made(until=30)
    with pytest.raises(ValueError, match="give 1 to 4"):
        dots([], {}, unit="%", alt="None.")
    with pytest.raises(ValueError, match="has 1 values for 2 places"):
        dots(["a", "b"], {"x": [1]}, unit="%", alt="Too few.")
