"""How many graphs packed rows make."""

import pytest
import torch

from chapters.long_sequences import recompiles

ROWS = [[30, 34], [20, 44], [24, 20, 20], [8, 8, 48], [60, 4], [16, 16, 16, 16], [31, 33], [10, 54], [50, 14], [12, 52]]


@pytest.mark.parametrize("way", [way for way in recompiles.PROGRAMS if "mask" in way or "padded" in way])
def test_a_mask_or_padded_bounds_need_one_graph(way):
    found = recompiles.count(way, ROWS[:6])
    assert found.graphs == (1,) * 6 and not found.breaks and found.ending == "compiled"


def test_a_longest_length_becomes_an_input():
    assert recompiles.count("varlen_attn", ROWS).graphs[-4:] == (3, 3, 3, 3)


def test_without_dynamic_shapes_it_ends_in_eager_mode():
    found = recompiles.count("varlen_attn, dynamic=False", ROWS)
    assert found.graphs == tuple(range(1, 9)) and found.ending == "eager from row 9 on"


def test_padded_bounds_are_of_one_length():
    assert recompiles.boundaries([3, 2]).tolist() == [0, 3, 5]
    assert recompiles.padded([3, 2], most=4).tolist() == [0, 3, 5, 5, 5]


def test_a_loop_over_documents_is_attention_to_each():
    x = torch.randn(5, recompiles.HEADS * recompiles.WIDTH)
    together, alone = recompiles.apart(x, [3, 2]), recompiles.apart(x[3:], [2])
    torch.testing.assert_close(together[:, :, 3:], alone)
    torch.testing.assert_close(recompiles.masked(x, recompiles._row_mask([3, 2])), together)
