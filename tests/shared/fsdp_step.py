"""A compiled SimpleFSDP step of four layers."""

import torch
from torch import nn

from mini_model.simple_fsdp import simple_fsdp


def mlp():
    torch.manual_seed(0)
    return nn.Sequential(*(nn.Linear(64, 64, bias=False) for _ in range(4)))


def step_on(mesh, device="cpu", options=None):
    """A compiled SimpleFSDP step over rows of its own on each rank."""
    with torch.device(device):
        model = simple_fsdp(mlp(), mesh)
        x = torch.ones(16, 64)
    run = torch.compile(model, fullgraph=True, options=options)
    return lambda: run(x).square().mean().backward()
