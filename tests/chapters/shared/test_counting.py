"""A backend that counts what runs. That a block has no loss is in chapter 18's grid."""

import torch
import torch.nn.functional as F
from torch import nn

from chapters.shared.counting import Counting


def test_it_counts_graphs_calls_and_runs():
    counting, model = Counting(), nn.Sequential(nn.Linear(4, 4), nn.GELU())
    step = torch.compile(lambda x, y: F.cross_entropy(model(x), y), backend=counting)
    x, y = torch.ones(2, 4), torch.zeros(2, dtype=torch.long)
    for _ in range(2):
        counting.begin()
        step(x, y).backward()
    assert (counting.graphs, counting.forward_runs, counting.backward_runs) == (1, 1, 1)
    assert counting.nodes_run > 3 and counting.loss
    expected = torch.autograd.grad(F.cross_entropy(model(x), y), model[0].weight)[0]
    torch.testing.assert_close(model[0].weight.grad, 2 * expected)
