"""trace: breaks and guards of functions that nobody prepared."""

import contextlib
import logging
import re

import pytest
import torch
from torch import nn

from compile_lab.dynamo.guards import ABOUT, in_words
from compile_lab.dynamo.tracing import trace

pytestmark = pytest.mark.processes


def helper(x):
    print("in the helper")
    return x.cos()


def branches(x):
    y = torch.sin(x)
    if y.sum() > 0:
        y = y * 2
    return helper(y)


@pytest.fixture(scope="module")
def found():
    return trace(branches, torch.ones(4))


def test_breaks_are_listed_once_with_reason_hint_place_and_source(found):
    assert [stop.source for stop in found.breaks] == ["if y.sum() > 0:", 'print("in the helper")']
    branch = found.breaks[0]
    assert branch.reason == "Data-dependent branching" and branch.hint
    assert branch.file == __file__ and branch.line == branches.__code__.co_firstlineno + 2
    assert branch.place == f"test_tracing.py, line {branch.line}"
    assert found.printed == "in the helper\n"


def test_a_function_that_cannot_be_split_is_said_to_be_skipped():
    @contextlib.contextmanager
    def quiet():
        yield

    def inside_with(x):
        with quiet():
            print("no way to split here")
            return x.cos()

    (stop,) = trace(inside_with, torch.ones(4)).breaks
    assert stop.skipped_for == "Graph break under GenericContextWrappingVariable"
    assert "left to Python" in str(stop) and stop.reason == "Failed to trace builtin operator"


def test_errors_of_the_function_come_through_and_leave_nothing_behind():
    level = logging.getLogger("torch._dynamo").level

    def fails(x):
        raise ValueError("my own mistake")

    with pytest.raises(ValueError, match="my own mistake"):
        trace(fails, torch.ones(1))
    assert logging.getLogger("torch._dynamo").level == level


limit = 3


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.gain = 2.0
        self.inner = nn.Linear(4, 4)

    def forward(self, x, n):
        return self.inner(x) * self.gain * n * limit


@pytest.fixture(scope="module")
def guards():
    return trace(Scaled(), torch.ones(2, 4), 5).guards


def test_each_guard_speaks_of_something(guards):
    about = {guard.text: guard.about for guard in guards}
    assert about["x is a torch.float32 tensor, size [2, 4], stride [4, 1], no requires_grad"] == "input tensor"
    assert about["n == 5"] == "Python argument" and about["self.gain == 2.0"] == "attribute"
    weight = "self.inner.weight is a torch.float32 tensor, size [4, 4], stride [4, 1], requires_grad"
    assert about[weight] == "parameter or buffer"
    assert about["limit == 3"] == "global name"
    assert all(guard.about == "global switch" for guard in guards if guard.ambient)
    assert set(about.values()) <= set(ABOUT)


def test_no_address_and_no_accessor_is_left(guards):
    assert not [guard.text for guard in guards if re.search(r"0x|\d{9}|\b[LG]\[|___", guard.text)]


RATES_MAPPING = {"full": 2.0}


def test_a_table_whose_name_ends_like_an_accessor_keeps_its_name():
    texts = [guard.text for guard in trace(lambda x: x * RATES_MAPPING["full"], torch.ones(2)).guards]
    assert any("RATES_MAPPING['full']" in text for text in texts), texts


def test_a_guards_words_hold_no_address():
    """Nor one within a name, as Dynamo makes them for globals that it found in another module."""
    assert in_words("G['_140218194473776_c0'].Tensor is 140218194473776") == "….Tensor is …"
    same = "___check_obj_id(G['_140218194473776_c0'].Tensor, 7641), type=<class 'torch.Tensor'>"
    assert in_words(same) == "….Tensor is the same torch.Tensor"
    assert in_words("Cached backend: <f at 0x7fb123456789> (id=0x7fb123456789).") == "Cached backend: <f at …>."
