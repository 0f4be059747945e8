"""The exercises of chapter 09: what is wrong with an answer is said. Its solutions are checked by nbval."""

import torch
import torch.nn.functional as F
from answers import judged_as
from torch.utils.checkpoint import checkpoint

from chapters.memory_lifetimes.in_page import COPIES
from compile_lab.memory.eager import eager_lifetimes


def test_as_many_buffers_are_alive_at_the_peak_as_the_judge_of_09_2_says():
    x = torch.ones(1000, requires_grad=True)
    found = eager_lifetimes(lambda: torch.exp(torch.sin(x)).sum().backward())
    assert found.peak_nbytes // (x.numel() * x.element_size()) == COPIES


def peak_without_death(lives):
    times = range(1 + max(death for _, death, _ in lives))
    live = [sum(nbytes for birth, death, nbytes in lives if birth <= at < death) for at in times]
    return max(live), live.index(max(live))


def last_peak(lives):
    times = range(1 + max(death for _, death, _ in lives))
    live = [sum(nbytes for birth, death, nbytes in lives if birth <= at <= death) for at in times]
    return max(live), len(live) - 1 - live[::-1].index(max(live))


def starter(x, w, targets):
    return F.cross_entropy(x @ w.T, targets)


def chunked(x, w, targets):
    """In pieces, but autograd keeps what each of them saved."""
    pieces = zip(x.chunk(8), targets.chunk(8), strict=True)
    return sum(F.cross_entropy(a @ w.T, b, reduction="sum") for a, b in pieces) / len(targets)


def keeps_no_gradient_of_w(x, w, targets):
    pieces = zip(x.chunk(8), targets.chunk(8), strict=True)
    losses = (checkpoint(starter, a, w.detach(), b, use_reentrant=False) for a, b in pieces)
    return sum(losses) / 8


def mean_of_tensors(model, batches):
    return sum(F.cross_entropy(model(x), y) for x, y in batches) / len(batches)


def last_batch(model, batches):
    with torch.no_grad():
        return F.cross_entropy(model(batches[-1][0]), batches[-1][1]).item()


test_a_wrong_answer_is_told_what_is_wrong_with_it = judged_as(
    ("09.1", peak_without_death, "too few. A buffer is alive at its death"),
    ("09.1", last_peak, "not reached first at operation"),
    ("09.1", lambda lives: 3, "this asks for a pair"),
    ("09.3", chunked, "its peak is"),
    ("09.3", keeps_no_gradient_of_w, "the gradient of w is not that of the starter"),
    ("09.3", lambda x, w, targets: 2 * starter(x, w, targets), "the loss is not"),
    ("09.4", mean_of_tensors, "returns a Tensor"),
    ("09.4", last_batch, "the mean is not"),
)
