"""Which mean a loss is. Chapter 17 has the three means, and the gradient that DDP leaves."""

import pytest
import torch
import torch.nn.functional as F

from chapters.long_sequences import losses


def by_document(logits, labels, documents):
    each = F.cross_entropy(logits, labels, reduction="none")
    return torch.stack([each[documents == number].mean() for number in documents.unique()]).mean()


@pytest.mark.parametrize(
    ("loss", "name"),
    [
        (lambda logits, labels, documents: F.cross_entropy(logits, labels), "by token"),
        (by_document, "by document"),
        (lambda logits, labels, documents: F.cross_entropy(logits, labels, reduction="sum"), "a sum"),
        (lambda logits, labels, documents: 2 * F.cross_entropy(logits, labels), "none of these"),
    ],
)
def test_a_loss_is_known_by_its_value(loss, name):
    assert losses.which(loss) == name
