"""Who computes how many pairs, by order."""

import pytest
import torch

from chapters.long_sequences import balance as orders
from chapters.long_sequences.balance import ORDERS, balance, causal, document_of, owners, work

DOCUMENTS = [704, 112, 48, 24, 344, 192, 112]


@pytest.mark.parametrize("lengths", [[1536], DOCUMENTS], ids=["causal", "documents"])
@pytest.mark.parametrize("order", ORDERS)
def test_each_position_is_dealt_once_and_all_pairs_are_counted(order, lengths):
    places = ORDERS[order](lengths, 4)
    assert places.shape == (4, 384) and sorted(places.flatten().tolist()) == list(range(1536))
    found, every = balance(order, lengths, 4), torch.arange(1536)
    allowed = causal(every[:, None], every[None], document_of(lengths))
    assert found.pairs == tuple(int(allowed[mine].sum()) for mine in places)
    assert torch.equal(owners(order, lengths, 4)[places], torch.arange(4)[:, None].expand(4, 384))


def test_work_begins_anew_in_each_document():
    assert work([3, 2]).tolist() == [1, 2, 3, 1, 2]


def test_documents_that_do_not_divide_are_refused():
    with pytest.raises(ValueError, match="a document of 12 positions is no multiple of 8 chunks"):
        orders.head_tail_by_document([16, 12], 4)
    with pytest.raises(ValueError, match="size"):
        orders.in_order(16, 0)
