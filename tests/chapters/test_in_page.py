"""A cell that a reader wrote: its outcome, what it printed, and where it went wrong, as HTML."""

import pytest

from chapters.exercises.in_page import MOST_PRINTED, judged


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        ('check("08.3", 3)', "✓ 08.3: right."),
        ('from chapters.exercises import check\nx = 4\ncheck("08.3", x)', "✗ 08.3: "),
        ("def f(:", "SyntaxError in line 1: "),
        ("def f():\n    return g()\n\nf()", "NameError in line 2: name 'g' is not defined."),
        ("import json\njson.loads('{')", "JSONDecodeError in line 2: "),
        ("x = 1\nassert x > 2", "✗ your answer: AssertionError in line 2.<"),
        ('def f(*_):\n    assert False\n\ncheck("08.1", f)', "✗ 08.1: your answer raised AssertionError<"),
        ("", "the last line must be the check"),
        ('check("08.3", 3)\nx = 1', "the last line must be the check"),
        ('check("99.1", 3)', "KeyError in line 1: "),
        ("from torch import nn\nnn", "there is no torch in a page, and this exercise needs none."),
        ('print("<b>")\ncheck("08.3", 3)', "<pre>&lt;b&gt;\n</pre>"),
    ],
)
def test_a_cell_is_judged_or_its_error_is_placed(cell, said):
    assert said in judged(cell)


def test_two_cells_know_nothing_of_each_other_and_endless_print_is_cut():
    judged("kept = 3")
    assert "name 'kept' is not defined" in judged('check("08.3", kept)')
    assert len(judged(f'print("x" * {10 * MOST_PRINTED})\ncheck("08.3", 3)')) < MOST_PRINTED + 200
