"""A pass's key: it changes with what the pass does, and with nothing else; what cannot be keyed is refused by name."""

import functools

import pytest
import torch

from chapters.load_bearing.passes import keyed_pass
from chapters.load_bearing.passes_key import PassError, source_key

FACTOR = 2
SEEN = []


def helped(graph):
    return _helper(graph)


def _helper(graph):
    return FACTOR


def _other_helper(graph):
    return FACTOR + 1


def in_a_comprehension(graph):
    return [FACTOR for _ in graph]


def with_a_list(graph):
    SEEN.append(graph)


def made(n):
    def inner(graph):
        return n

    return inner


class Removing:
    def __init__(self, op):
        self.op = op

    def __call__(self, graph):
        return self.op


def test_what_a_pass_calls_or_reads_is_in_its_key(monkeypatch):
    before, inside = source_key(helped), source_key(in_a_comprehension)
    monkeypatch.setitem(globals(), "FACTOR", 3)
    assert source_key(helped) != before and source_key(in_a_comprehension) != inside
    monkeypatch.setitem(globals(), "FACTOR", 2)
    assert source_key(helped) == before
    monkeypatch.setitem(globals(), "_helper", _other_helper)
    assert source_key(helped) != before


def test_what_is_bound_to_it_is_in_its_key():
    assert source_key(made(1)) != source_key(made(2)) and source_key(made(1)) == source_key(made(1))
    partials = [functools.partial(helped, FACTOR=n) for n in (1, 2)]
    assert source_key(partials[0]) != source_key(partials[1])
    mm, bmm = Removing(torch.ops.aten.mm.default), Removing(torch.ops.aten.bmm.default)
    assert source_key(mm) != source_key(bmm)


class Torchs:
    def __call__(self, graph):
        pass

    def uuid(self):
        return None


def without_a_source():
    space = {}
    exec("def unseen(graph): pass", space)
    return space["unseen"]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: source_key(with_a_list), "with_a_list has no key: it reads SEEN, a list.*give key="),
        (lambda: source_key(made({})), "it reads n, a dict"),
        (lambda: source_key(without_a_source()), "unseen has no key"),
        (lambda: keyed_pass(Torchs()), "Torchs has no key"),
        (lambda: keyed_pass(helped, key=" "), "helped has no key"),
    ],
)
def test_what_may_change_unseen_or_has_no_source_has_no_key(call, said):
    with pytest.raises(PassError, match=said):
        call()


def test_a_key_may_be_given():
    assert keyed_pass(without_a_source(), key="version 1").uuid() == "version 1"
