"""Bounds of documents in packed rows, and attention to each. Chapter 17 counts the graphs."""

import torch

from chapters.long_sequences import recompiles


def test_padded_bounds_are_of_one_length():
    assert recompiles.boundaries([3, 2]).tolist() == [0, 3, 5]
    assert recompiles.padded([3, 2], most=4).tolist() == [0, 3, 5, 5, 5]


def test_a_loop_over_documents_is_attention_to_each():
    x = torch.randn(5, recompiles.HEADS * recompiles.WIDTH)
    together, alone = recompiles.apart(x, [3, 2]), recompiles.apart(x[3:], [2])
    torch.testing.assert_close(together[:, :, 3:], alone)
    torch.testing.assert_close(recompiles.masked(x, recompiles._row_mask([3, 2])), together)
