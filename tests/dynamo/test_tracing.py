"""trace: breaks and guards of functions that nobody prepared."""

import logging

import pytest
import torch

from compile_lab.dynamo.guards import in_words
from compile_lab.dynamo.tracing import trace

pytestmark = pytest.mark.processes


def test_errors_of_the_function_come_through_and_leave_nothing_behind():
    level = logging.getLogger("torch._dynamo").level

    def fails(x):
        raise ValueError("my own mistake")

    with pytest.raises(ValueError, match="my own mistake"):
        trace(fails, torch.ones(1))
    assert logging.getLogger("torch._dynamo").level == level


def test_what_a_function_prints_is_kept_from_the_page():
    assert trace(lambda x: (print("in between"), x.cos()), torch.ones(4)).printed == "in between\n"


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
