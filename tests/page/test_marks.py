"""Marks: what was not measured, and names that are no markup. All kinds of marks stand in the chapters."""

import re

from compile_lab.page import dots


def test_what_was_not_measured_has_no_mark_and_a_name_is_no_markup():
    picture = dots(["<lambda>", "1F1B"], {"on paper": [10, 20], "measured": [40, None]}, unit="%", title="Two rows.")
    assert re.findall(r"m-dot[^>]*>(.)<", picture.body) == ["●", "■", "●"]
    assert picture.table.rows == [["<lambda>", 10.0, 40.0], ["1F1B", 20.0, None]]
    assert "&lt;lambda&gt;" in picture.body and "<lambda>" not in picture.body
