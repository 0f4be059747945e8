"""Attention by blocks: merged they are one. Chapter 17 runs each way on ranks, to 1e-5 and by its bytes."""

import pytest
import torch

from chapters.long_sequences import attention
from chapters.long_sequences.attention import block, merge


def test_a_length_that_does_not_divide_is_refused():
    with pytest.raises(ValueError, match="length 65 is no multiple of 2 ranks: pad the sequence"):
        attention.run(65, 2)


def test_two_blocks_merged_are_one():
    torch.manual_seed(0)
    query, key, value = torch.randn(5, 4), torch.randn(6, 4), torch.randn(6, 4)
    allowed = torch.ones(5, 6, dtype=torch.bool)
    whole, lse = block(query, key, value, allowed)
    halves = [block(query, key[at], value[at], allowed[:, at]) for at in (slice(0, 2), slice(2, 6))]
    torch.testing.assert_close(merge(*halves[0], *halves[1]), (whole, lse))
    torch.testing.assert_close(whole, torch.softmax(query @ key.T / 2, -1) @ value)


def test_a_query_that_sees_nothing_of_a_block_gets_nothing_from_it():
    query, key, value = (torch.randn(3, 4) for _ in range(3))
    nothing = block(query, key, value, torch.zeros(3, 3, dtype=torch.bool))
    assert not nothing[0].any() and torch.isinf(nothing[1]).all()
    some = block(query, key, value, torch.ones(3, 3, dtype=torch.bool))
    torch.testing.assert_close(merge(*some, *nothing), some)
