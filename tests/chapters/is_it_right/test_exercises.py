"""Answers that are likely and wrong, or nearly right; starters and solutions are in the notebook."""

import torch
from answers import judged_as

test_a_wrong_answer_is_told_what_is_wrong_with_it = judged_as(
    ("20.1", 31.35, "right."),
    ("20.1", 32.0, "mean"),
    ("20.1", 3.1, "unit"),
    ("20.2", lambda exact, first, second, x: "first", "for the same sum in bfloat16"),
    ("20.2", lambda exact, first, second, x: None, "it returns None"),
    ("20.3", lambda exact, eager, moved, compiled: "fault", "2e-7 off"),
    ("20.3", lambda exact, eager, moved, compiled: "yes", "'yes'"),
    ("20.3", lambda exact, _, __, made: "rounding" if abs(made - exact) < 0.1 else "fault", "1e-5"),
    ("20.4", lambda function, compiled, x: not torch.equal(function(x), compiled(x)), "another order"),
)
