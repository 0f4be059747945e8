"""Three means of a loss, and the gradient that DDP leaves."""

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


def test_the_three_means():
    long, short, other = (torch.full((n,), at) for n, at in ((90, 2.0), (5, 5.0), (5, 5.0)))
    assert losses.by_token([long, short, other]) == pytest.approx(2.3)
    assert losses.by_document([long, short, other]) == pytest.approx(4.0)
    assert losses.by_device([[long], [short, other]]) == pytest.approx(3.5)


@pytest.mark.processes
def test_only_the_sum_times_ranks_over_all_tokens_is_one_process_s_gradient():
    own, summed, right = losses.gradients([30, 6])
    assert own.off > 0.05 and summed.off == pytest.approx(0.5, abs=1e-4) and right.off < 1e-5
