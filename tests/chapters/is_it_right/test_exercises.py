"""Answers that are right, and those that are likely and wrong."""

import torch
from answers import judged_as

test_units = judged_as((31.35, "right."), (32.0, "mean"), (3.1, "unit"), (9.6e-6 / 4e-7, "unit"), name="20.1")


test_verdicts_that_are_wrong = judged_as(
    (lambda exact, eager, moved, compiled: "fault", "2e-7 off"),
    (lambda exact, eager, moved, compiled: "yes", "'yes'"),
    (lambda exact, eager, moved, compiled: "rounding" if abs(compiled - exact) < 0.1 else "fault", "1e-5"),
    name="20.3",
)


def first_call_only(function, compiled, x):
    exact, eager = function(x.double()), function(x)
    unit = (eager - exact).abs().max() + 1e-7 * exact.abs().max()
    return bool((compiled(x) - exact).abs().max() > 64 * unit)


test_judges_that_miss_or_accuse = judged_as(
    (lambda function, compiled, x: not torch.equal(function(x), compiled(x)), "another order"),
    (first_call_only, "a hundredth"),
    (lambda function, compiled, x: False, "a hundredth"),
    name="20.4",
)


def closer(exact, first, second, x):
    truth = exact(x.double())
    errors = [(way(x).double() - truth).abs().max().nan_to_num(posinf=1e300).item() for way in (first, second)]
    return "neither" if errors[0] == errors[1] else "first" if errors[0] < errors[1] else "second"


def closer_to_float32(exact, first, second, x):
    errors = [(way(x) - exact(x)).abs().max().item() for way in (first, second)]
    return "neither" if errors[0] == errors[1] else "first" if errors[0] < errors[1] else "second"


test_who_is_closer = judged_as(
    (closer, "right."),
    (closer_to_float32, "for a variance, by its definition"),
    (lambda exact, first, second, x: "first", "for the same sum in bfloat16"),
    (lambda exact, first, second, x: None, "it returns None"),
    name="20.2",
)
