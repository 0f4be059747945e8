"""Inductor keeps code by a pass's key: the same pass is not run again, a changed one is, and a kept key is stale."""

import pytest
import torch

from chapters.load_bearing.passes_cache import asked_again

aten = torch.ops.aten


def scaled(x):
    return torch.sin(x) * 3


def sines_are_cosines(graph):
    for node in graph.find_nodes(op="call_function", target=aten.sin.default):
        node.target = aten.cos.default


def sines_stay(graph):
    pass


@pytest.mark.slow
def test_the_key_decides_whether_a_pass_is_run_and_an_old_key_gives_old_code():
    x = torch.randn(64)
    passes = [
        (sines_are_cosines, None),
        (sines_are_cosines, None),
        (sines_stay, None),
        (sines_stay, "1"),
        (sines_are_cosines, "1"),
    ]
    first, again, changed, fixed, stale = asked_again(scaled, [x], passes)
    assert (first.from_cache, again.from_cache, changed.from_cache) == (False, True, False)
    torch.testing.assert_close(first.result, torch.cos(x) * 3)
    assert torch.equal(again.result, first.result)
    torch.testing.assert_close(changed.result, torch.sin(x) * 3)
    assert not fixed.from_cache and stale.from_cache, "another pass, under a key that is known"
    assert torch.equal(stale.result, changed.result), "it would have made cosines of them"
    assert str(stale).endswith("was not run: the cache answered")
