"""Wrong types and impossible values, and what is wrong with how a call that nobody should make ends."""

import math

import torch


class Odd:
    """Nothing of use."""


NOT_CALLABLE = (
    *(None, True, False, 0, -1, -(10**30), 10**30, 1.0, 0.5, -0.0, math.nan, math.inf, -math.inf, 1 + 2j),
    *("", "nope", "\0", "cuda:7", "meta", "../../etc", b"mini", [], [1], [[1]], ["a", 2], (), {}, {"a": 1}, {1: None}),
    *({1}, range(3), Odd(), torch.ones(2), torch.tensor(3), torch.tensor([[7]]), torch.float32, torch.int8),
)
WRONG = (*NOT_CALLABLE, len, torch.nn.Linear(2, 2))


def complaint(call, names, refusals):
    """None where a call goes through, "" where it is refused by one of these names, and else what is wrong."""
    try:
        call()
    except refusals as error:
        return "" if any(each in str(error).lower() for each in names) else f"does not name it: {error}"
    except Exception as error:
        return f"ends in {type(error).__name__}: {error}"
    return None
