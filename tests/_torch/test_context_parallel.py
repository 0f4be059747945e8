"""torch's balancers of context parallel."""

import torch

from compile_lab._torch import context_parallel


def test_head_tail_pairs_an_early_chunk_with_a_late_one():
    assert context_parallel.head_tail(8, 2).tolist() == [[0, 1, 6, 7], [2, 3, 4, 5]]


def test_the_others_deal_each_position_once():
    lengths = [32, 96]
    documents = torch.arange(2).repeat_interleave(torch.tensor(lengths))
    for places in (context_parallel.per_document(lengths, 4), context_parallel.ptrr(documents, 4, 16)):
        assert places.shape == (4, 32) and sorted(places.flatten().tolist()) == list(range(128))
