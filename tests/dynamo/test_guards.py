"""Guards in words: what each speaks of, counted, folded over layers."""

import re

import pytest
import torch
from torch import nn

from compile_lab.dynamo.guards import ABOUT, counted, folded, in_words
from compile_lab.dynamo.tracing import trace

limit = 3


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.gain = 2.0
        self.inner = nn.Linear(4, 4)

    def forward(self, x, n):
        return self.inner(x) * self.gain * n * limit


@pytest.fixture(scope="module")
def found():
    return trace(Scaled(), torch.ones(2, 4), 5).guards


def test_each_guard_speaks_of_something(found):
    about = {guard.text: guard.about for guard in found}
    assert about["x is a torch.float32 tensor, size [2, 4], stride [4, 1], no requires_grad"] == "input tensor"
    assert about["n == 5"] == "Python argument" and about["self.gain == 2.0"] == "attribute"
    weight = "self.inner.weight is a torch.float32 tensor, size [4, 4], stride [4, 1], requires_grad"
    assert about[weight] == "parameter or buffer"
    assert about["limit == 3"] == "global name"
    assert all(guard.about == "global switch" for guard in found if guard.ambient)
    assert set(about.values()) <= set(ABOUT)


def test_no_address_and_no_accessor_is_left(found):
    assert not [guard.text for guard in found if re.search(r"0x|\d{9}|\b[LG]\[|___", guard.text)]


def test_counts_add_up_and_keep_the_order_of_things(found):
    counts = counted(found)
    assert sum(counts.values()) == len(found) and list(counts) == [name for name in ABOUT if name in counts]
    assert counts["parameter or buffer"] == 2 and counts["Python argument"] == 2  # n, and the type of self


def test_layers_fold_into_one_line_with_a_count():
    class Deep(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(5))

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return x

    found = trace(Deep(), torch.ones(2, 4)).guards
    lines = {line.text: line.count for line in folded(found)}
    weight = "self.layers[*].weight is a torch.float32 tensor, size [4, 4], stride [4, 1], requires_grad"
    assert lines[weight] == 5 and sum(lines.values()) == len(found)
    assert "x is a torch.float32 tensor, size [2, 4], stride [4, 1], no requires_grad" in lines


def test_a_size_that_may_vary_is_said_to_be_any_and_its_bounds_are_guards_of_their_own():
    def pairs(x):
        return x.view(-1, 2) if x.shape[0] < 100 else x

    found = trace(pairs, torch.ones(8), dynamic=True).guards
    sizes = [guard.text for guard in found if guard.about == "symbolic size"]
    assert "(x.size()[0] % 2) == 0" in sizes and any(text.endswith("x.size()[0] <= 99") for text in sizes)
    assert "x is a torch.float32 tensor, size [any], stride [1], no requires_grad" in map(str, found)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("L['self']._modules['blocks']._modules['0'].heads == 4   # x  # a.py:3", "self.blocks[0].heads == 4"),
        ("GLOBAL_STATE changed: grad_mode ", "a global switch changed: grad_mode"),
        ("not ___dict_contains('forward', L['self'].__dict__)", "self has no attribute 'forward' of its own"),
        ("tensor 'x' size mismatch at index 0. expected 2, actual 1",) * 2,
    ],
)
def test_conditions_are_put_in_words(said, words):
    assert in_words(said) == words
