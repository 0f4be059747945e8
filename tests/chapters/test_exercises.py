"""check says what is wrong with an answer. The notebooks' own starters and solutions are checked by nbval."""

import re
from pathlib import Path

import pytest
from answers import judged_as

import chapters
from chapters.exercises import check

CHAPTERS = Path(chapters.__file__).parent.glob("*/exercises.py")
NAMES = sorted(re.findall(r'(?m)^@exercise\("(\d\d\.\d)"', "".join(path.read_text() for path in CHAPTERS)))


test_a_wrong_answer_is_told_what_is_wrong_with_it = judged_as(
    ("01.1", lambda x, limit: x, "norm is above the limit"),
    ("01.1", lambda x, limit: x * (limit / x.norm()), "norm is below the limit"),
    ("01.2", 2, "more than 2"),
    ("01.2", 7, "fewer than 7"),
    ("01.2", "six", "whole number"),
    ("01.3", lambda w, x, history: w, "new weights"),
    ("01.3", lambda w, x, history: w - 0.1 * 2 * x.T @ (x @ w) / 3, "exactly that step's loss"),
    ("01.3", lambda w: w, "raised TypeError"),
    ("01.4", lambda x: x.sin(), "0 breaks, not one"),
)


@pytest.mark.parametrize("name", NAMES)
def test_an_answer_of_another_kind_is_told_what_is_asked_for(name):
    assert "this asks for" in check(name, b"").wrong


def test_an_unknown_exercise_lists_those_there_are():
    with pytest.raises(KeyError, match=r"no exercise '01\.9'; known are 01\.1, 01\.2"):
        check("01.9", 1)
    with pytest.raises(KeyError, match=r"no exercise '99\.1'"):
        check("99.1", 1)
