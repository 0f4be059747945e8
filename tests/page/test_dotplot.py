"""Dots on one scale: where they stand, what stands for them in words, and what no axis can hold."""

from compile_lab.page import dots


def test_an_axis_ends_at_a_round_number_above_the_data():
    assert ">50 %</text>" in dots(["a"], {"x": [43.21]}, unit="%", alt="One.").svg
    assert ">0.012 s</text>" in dots(["a"], {"x": [0.0113]}, unit="s", alt="One.").svg
    assert ">1 %</text>" in dots(["a"], {"x": [0]}, unit="%", alt="None.").svg


def test_the_table_has_the_same_numbers():
    rows = {"on paper": [10, 20], "measured": [40, None]}
    assert dots(["GPipe", "1F1B"], rows, unit="%", alt="Two rows.").table.rows == [
        ("GPipe", 10.0, 40.0),
        ("1F1B", 20.0, None),
    ]
