"""A trace as a reader sees it."""

import torch

from compile_lab.dynamo import view as dynamo_view
from compile_lab.dynamo.tracing import trace


def test_the_summary_says_when_nothing_was_compiled():
    def loops(x):
        for _ in range(2):
            print("again")
        return x + 1

    assert dynamo_view.summary(trace(loops, torch.ones(2))).startswith("**Nothing was compiled**")
    assert dynamo_view.summary(trace(torch.sin, torch.ones(2))) == "**One graph**: 1 graph with 1 op, 0 breaks."
