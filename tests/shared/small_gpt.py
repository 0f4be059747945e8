"""A GPT of three layers, and its graphs from both partitioners."""

import torch

from compile_lab.aot.training import training_graphs
from mini_model.model import GPTConfig, MiniGPT

SMALL = GPTConfig(vocabulary=50, context=16, dim=16, layers=3, heads=2)


def leaf(*shape):
    return torch.randn(*shape, requires_grad=True)


def small_gpt():
    torch.manual_seed(0)
    return MiniGPT(SMALL), torch.randint(0, 50, (2, 16))


def graphs_of(model, tokens):
    return {name: training_graphs(model, tokens, tokens, partitioner=name) for name in ("min_cut", "default")}
