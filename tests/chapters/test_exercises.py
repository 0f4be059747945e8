"""check says what is wrong with an answer, and takes a right one. The notebook's own solutions are checked by nbval."""

import re
from pathlib import Path

import pytest
import torch

import chapters
from chapters.exercises import check

CHAPTERS = Path(chapters.__file__).parent.glob("*/exercises.py")
NAMES = sorted(re.findall(r'(?m)^@exercise\("(\d\d\.\d)"', "".join(path.read_text() for path in CHAPTERS)))


def clip(x, limit):
    return x * torch.clamp(limit / x.norm(), max=1.0)


def branches(x, limit):
    norm = x.norm()
    if norm > limit:
        return x * (limit / norm)
    return x


@pytest.mark.parametrize(
    ("name", "answer", "wrong"),
    [
        ("01.1", branches, "the graph still breaks: if norm > limit"),
        ("01.1", lambda x, limit: x, "norm is above the limit"),
        ("01.1", lambda x, limit: x * (limit / x.norm()), "norm is below the limit"),
        ("01.1", ..., "no answer yet"),
        ("01.2", 2, "more than 2"),
        ("01.2", 7, "fewer than 7"),
        ("01.2", "six", "whole number"),
        ("01.3", lambda w, x, history: w, "new weights"),
        ("01.3", lambda w, x, history: w - 0.1 * 2 * x.T @ (x @ w) / 3, "exactly that step's loss"),
        ("01.3", lambda w: w, "raised TypeError"),
        ("01.4", lambda x: x.sin(), "0 breaks, not one"),
    ],
)
def test_a_wrong_answer_is_told_what_is_wrong_with_it(name, answer, wrong):
    outcome = check(name, answer)
    mark = "○" if answer is ... else "✗"  # what nobody has answered is not wrong
    assert not outcome.passed and wrong in outcome.wrong and repr(outcome).startswith(f"{mark} {name}: ")


@pytest.mark.parametrize(("name", "answer"), [("01.1", clip), ("01.2", 6)])
def test_a_right_answer_passes(name, answer):
    assert check(name, answer).passed and repr(check(name, answer)) == f"✓ {name}: right."


@pytest.mark.parametrize("name", NAMES)
def test_an_answer_of_another_kind_is_told_what_is_asked_for(name):
    assert "this asks for" in check(name, b"").wrong


def test_an_unknown_exercise_lists_those_there_are():
    with pytest.raises(KeyError, match=r"no exercise '01\.9'; known are 01\.1, 01\.2"):
        check("01.9", 1)
    with pytest.raises(KeyError, match=r"no exercise '99\.1'"):
        check("99.1", 1)
