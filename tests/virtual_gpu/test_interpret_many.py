"""Sixty generated kernels, forward and backward, against float64: each as near to it as eager mode is."""

import copy
import sys

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from chapters.shared import subjects
from compile_lab.virtual_gpu.client import interpret

pytestmark = [
    pytest.mark.processes,
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="Triton is made for Linux"),
]
LEAST_KERNELS = 60
UNITS = 8
"""Times eager's own distance from float64, or a float32's rounding where that is larger."""


class Gated(nn.Module):
    """A gated MLP behind an RMS norm, with a residual."""

    def __init__(self):
        super().__init__()
        self.norm, self.both, self.down = nn.RMSNorm(24), nn.Linear(24, 96), nn.Linear(48, 24)

    def forward(self, x):
        gate, value = self.both(self.norm(x)).chunk(2, -1)
        return x + self.down(F.silu(gate) * value)


class Modulated(nn.Module):
    """A norm whose shift and scale come from a table, as diffusion transformers have it."""

    def __init__(self):
        super().__init__()
        self.table, self.norm = nn.Parameter(torch.randn(1, 2, 24)), nn.LayerNorm(24, elementwise_affine=False)

    def forward(self, x):
        shift, scale = self.table.unbind(1)
        return self.norm(x) * (1 + scale) + shift


class Attention(nn.Module):
    """Attention written out, causal, with a softmax over masked scores."""

    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(24, 72)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        scores = (q @ k.mT) / 24**0.5
        later = torch.ones(x.shape[-2], x.shape[-2], dtype=torch.bool, device=x.device).triu(1)
        return scores.masked_fill(later, -1e9).softmax(-1) @ v


SUBJECTS = {
    "gated": (Gated(), (2, 16, 24)),
    "modulated": (Modulated(), (8, 16, 24)),
    "attention": (Attention(), (2, 16, 24)),
    "layer norm": (nn.Sequential(nn.Linear(24, 40), nn.GELU(), nn.LayerNorm(40)), (32, 24)),
    "group norm": (nn.Sequential(nn.Conv2d(4, 8, 3, padding=1), nn.GroupNorm(2, 8), nn.SiLU()), (2, 4, 8, 8)),
    "batch norm": (nn.Sequential(nn.Conv2d(4, 8, 3), nn.BatchNorm2d(8), nn.ReLU()), (4, 4, 8, 8)),
    "pooling": (nn.Sequential(nn.Conv2d(4, 8, 3), nn.AvgPool2d(2), nn.Hardswish()), (2, 4, 10, 10)),
    "softplus": (nn.Sequential(nn.Linear(24, 24), nn.Softplus(), nn.Linear(24, 8), nn.LogSoftmax(-1)), (16, 24)),
    "deep": (
        nn.Sequential(*(nn.Sequential(nn.Linear(24, 24), nn.Tanh(), nn.LayerNorm(24)) for _ in range(3))),
        (16, 24),
    ),
    "mish": (nn.Sequential(nn.Linear(24, 24), nn.Mish(), nn.Linear(24, 24), nn.ELU(), nn.Linear(24, 4)), (16, 24)),
}


def distances(found, exact):
    """How far outputs and gradients are from float64's, relative to its largest value."""
    return {
        name: float((found[name].double() - value).abs().max() / value.abs().max().clamp(min=1e-30))
        for name, value in exact.items()
    }


def differentiated(model, args):
    """The loss and the gradients of a model's parameters, as ``interpret`` takes them."""
    output = model(*args)
    output.sum().backward()
    return {"output": output.detach()} | {name: each.grad for name, each in model.named_parameters()}


def test_sixty_kernels_are_as_near_to_float64_as_eager_mode_is():
    torch.manual_seed(0)
    gpt = subjects.minigpt()
    cases = {name: (model, (torch.randn(size),)) for name, (model, size) in SUBJECTS.items()}
    cases["MiniGPT"] = (gpt, subjects.tokens(gpt, 2, 16))
    kernels = 0
    for name, (model, args) in cases.items():
        wide = [each.double() if each.is_floating_point() else each for each in args]
        exact = differentiated(copy.deepcopy(model).double(), wide)
        eager = distances(differentiated(copy.deepcopy(model), args), exact)
        found = interpret(copy.deepcopy(model), *args)
        here = distances({"output": found.outputs.detach(), **found.gradients}, exact)
        kernels += len(found.kernels)
        far = {key: (far, eager[key]) for key, far in here.items() if far > UNITS * max(eager[key], 6e-8)}
        assert not far, f"{name}: {far}"
        assert all(torch.isfinite(each).all() for each in found.gradients.values()), name
    assert kernels >= LEAST_KERNELS, kernels
