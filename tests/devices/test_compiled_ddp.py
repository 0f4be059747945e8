"""Compiled DDP, cut at its buckets and as one graph, on two ranks."""

import pytest
import torch
from torch import nn

from compile_lab.devices import compiled_ddp, ranks


class Stack(nn.Module):
    """Four layers of 1 MB each, and a loss."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Sequential(*(nn.Linear(512, 512) for _ in range(4)))

    def forward(self, x):
        return self.layers(x).square().mean()


def graphs_and_weights():
    from torch.profiler import profile

    modules = []

    def make():
        modules.append(Stack())
        return modules[-1]

    found = {}
    for way, step in compiled_ddp.steps(make, torch.ones(8, 512), bucket_mb=1).items():
        with profile() as seen:
            step()
        found[way] = [event.name for event in seen.events()].count("CompiledFunction")
    return found, [torch.cat([p.detach().flatten() for p in module.parameters()]) for module in modules]


@pytest.mark.slow
def test_only_optimize_ddp_cuts_the_graph_and_all_ways_train_alike():
    (graphs, (eager, cut, whole)), (other, _) = ranks.run(graphs_and_weights, 2, timeout=600)
    assert graphs == other and graphs["eager"] == 0
    assert graphs["one graph"] == 1 and graphs["cut at its buckets"] > 2
    torch.testing.assert_close(cut, eager)
    torch.testing.assert_close(whole, eager)
