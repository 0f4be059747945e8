"""Masks and scores for FlexAttention, and what makes none."""

import pytest
import torch

from mini_model.flex import (
    block_mask,
    causal,
    documents_of,
    same_document,
    sliding_window,
    soft_cap,
)

pytestmark = pytest.mark.processes


def test_documents_end_with_their_end_token():
    tokens = torch.tensor([[5, 0, 3, 3, 0, 0, 2]])
    assert documents_of(tokens, 0).tolist() == [[0, 0, 1, 1, 1, 2, 3]]


def test_a_soft_cap_bounds_scores_and_leaves_small_ones():
    scores = torch.tensor([-1e4, -0.1, 0.0, 0.1, 1e4])
    nowhere = torch.tensor(0)
    bent = soft_cap(20.0)(scores, nowhere, nowhere, nowhere, nowhere)
    assert bent.abs().max() <= 20 and (bent[1:4] - scores[1:4]).abs().max() < 1e-5


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: sliding_window(0), "width"),
        (lambda: soft_cap(0.0), "limit"),
        (lambda: same_document(torch.zeros(3, dtype=torch.long)), "documents"),
        (lambda: same_document(torch.zeros(1, 3)), "documents"),
        (lambda: block_mask(causal, 0), "length"),
    ],
)
def test_what_makes_no_mask_is_told_by_name(call, said):
    with pytest.raises(ValueError, match=said):
        call()
