"""Documents in rows: what padding wastes, what mixes, what positions do."""

import pytest
import torch

from chapters.long_sequences import packing
from chapters.long_sequences.balance import document_of

LENGTHS = packing.document_lengths()


def test_every_document_is_in_a_row_with_room():
    rows = packing.first_fit(LENGTHS, 1024)
    assert sorted(length for row in rows for length in row) == sorted(LENGTHS)
    assert max(map(sum, rows)) <= 1024 and len(rows) < 1.05 * sum(LENGTHS) / 1024


def test_a_document_longer_than_a_row_is_refused():
    with pytest.raises(ValueError, match="a document of 20 tokens does not fit a row of 16"):
        packing.first_fit([4, 20], 16)


def test_pairs_are_those_of_each_document():
    assert packing.pairs([3, 2]) == 6 + 3


def test_a_mask_is_what_keeps_documents_apart():
    wrong = {(each.positions, each.masked, each.restart): each.wrong for each in packing.kinds([32, 20, 12])}
    for (positions, masked, restart), share in wrong.items():
        right = masked and (restart or positions == "RoPE")
        assert share == (0 if right else pytest.approx(0.5, abs=0.04))


def test_rope_turns_scores_by_the_difference_of_positions():
    query, key = torch.randn(2, 6, 8), torch.randn(2, 6, 8)
    at = torch.arange(6)
    scores = [packing.rotated(query, at + by) @ packing.rotated(key, at + by).mT for by in (0, 100)]
    torch.testing.assert_close(*scores, atol=1e-4, rtol=1e-4)
    assert not torch.allclose(scores[0], query @ key.mT)


def test_attention_to_documents_is_attention_to_each():
    parts = [torch.randn(1, 2, 9, 4) for _ in range(3)]
    together = packing.attention(*parts, document_of([5, 4]))
    apart = [packing.attention(*(part[:, :, at] for part in parts)) for at in (slice(0, 5), slice(5, 9))]
    torch.testing.assert_close(together, torch.cat(apart, 2))
