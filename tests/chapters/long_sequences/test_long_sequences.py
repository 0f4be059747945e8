"""Packing, balance, attention to documents and losses, where chapter 17 does not print them."""

import pytest
import torch
import torch.nn.functional as F

from chapters.long_sequences import attention, losses, packing, recompiles
from chapters.long_sequences import balance as orders
from chapters.long_sequences.balance import ORDERS, balance, causal, document_of, owners

DOCUMENTS = [704, 112, 48, 24, 344, 192, 112]


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda: attention.run(65, 2), "length 65 is no multiple of 2 ranks: pad the sequence"),
        (lambda: packing.first_fit([4, 20], 16), "a document of 20 tokens does not fit a row of 16"),
        (lambda: orders.head_tail_by_document([16, 12], 4), "a document of 12 positions is no multiple of 8 chunks"),
        (lambda: orders.in_order(16, 0), "size"),
    ],
)
def test_what_does_not_fit_is_refused(call, word):
    with pytest.raises(ValueError, match=word):
        call()


def test_every_document_is_in_a_row_with_room():
    lengths = packing.document_lengths()
    rows = packing.first_fit(lengths, 1024)
    assert sorted(length for row in rows for length in row) == sorted(lengths)
    assert max(map(sum, rows)) <= 1024 and len(rows) < 1.05 * sum(lengths) / 1024


@pytest.mark.parametrize("lengths", [[1536], DOCUMENTS], ids=["causal", "documents"])
@pytest.mark.parametrize("order", ORDERS)
def test_each_position_is_dealt_once_and_all_pairs_are_counted(order, lengths):
    places = ORDERS[order](lengths, 4)
    assert places.shape == (4, 384) and sorted(places.flatten().tolist()) == list(range(1536))
    found, every = balance(order, lengths, 4), torch.arange(1536)
    allowed = causal(every[:, None], every[None], document_of(lengths))
    assert found.pairs == tuple(int(allowed[mine].sum()) for mine in places)
    assert torch.equal(owners(order, lengths, 4)[places], torch.arange(4)[:, None].expand(4, 384))


def test_a_loop_over_documents_is_attention_to_each():
    """Chapter 17 counts their graphs, with a backend that computes nothing."""
    assert recompiles.padded([3, 2], most=4).tolist() == [0, 3, 5, 5, 5]
    x = torch.randn(5, recompiles.HEADS * recompiles.WIDTH)
    together, alone = recompiles.apart(x, [3, 2]), recompiles.apart(x[3:], [2])
    torch.testing.assert_close(together[:, :, 3:], alone)
    torch.testing.assert_close(recompiles.masked(x, recompiles._row_mask([3, 2])), together)


def test_a_loss_that_is_no_mean_is_known_by_its_value():
    def summed(logits, labels, documents):
        return F.cross_entropy(logits, labels, reduction="sum")

    def twice(logits, labels, documents):
        return 2 * F.cross_entropy(logits, labels)

    assert (losses.which(summed), losses.which(twice)) == ("a sum", "none of these")
