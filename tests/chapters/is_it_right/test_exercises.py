"""Answers that are right, and those that are likely and wrong."""

import pytest
import torch

from chapters.exercises import check


def judged(name, answer):
    outcome = check(name, answer)
    return str(outcome)


@pytest.mark.parametrize(("answer", "word"), [(31.35, ""), (32.0, "mean"), (3.1, "unit"), (9.6e-6 / 4e-7, "unit")])
def test_units(answer, word):
    said = judged("20.1", answer)
    assert (word or "right.") in said


@pytest.mark.parametrize(
    ("answer", "word"),
    [
        (lambda exact, eager, moved, compiled: "fault", "2e-7 off"),
        (lambda exact, eager, moved, compiled: "yes", "'yes'"),
        (lambda exact, eager, moved, compiled: "rounding" if abs(compiled - exact) < 0.1 else "fault", "1e-5"),
    ],
)
def test_verdicts_that_are_wrong(answer, word):
    assert word in judged("20.2", answer)


def first_call_only(function, compiled, x):
    exact, eager = function(x.double()), function(x)
    unit = (eager - exact).abs().max() + 1e-7 * exact.abs().max()
    return bool((compiled(x) - exact).abs().max() > 64 * unit)


@pytest.mark.parametrize(
    ("answer", "word"),
    [
        (lambda function, compiled, x: not torch.equal(function(x), compiled(x)), "another order"),
        (first_call_only, "a hundredth"),
        (lambda function, compiled, x: False, "a hundredth"),
    ],
)
def test_judges_that_miss_or_accuse(answer, word):
    assert word in judged("20.3", answer)


def test_no_answer_yet(capsys):
    assert "20.1" in str(check("20.1", ...))
