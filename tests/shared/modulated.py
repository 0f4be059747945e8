"""A model in a module of its own, which a virtual GPU's process can import."""

import torch
import torch.nn.functional as F
from torch import nn


class Modulated(nn.Module):
    """Two norms whose scales and shifts are chunks of one table, as diffusion transformers have them."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width
        self.table = nn.Parameter(torch.randn(1, 4, width) * 0.02)
        self.between = nn.Linear(width, width)

    def forward(self, x):
        a, b, c, d = self.table.chunk(4, dim=1)
        x = self.between(F.layer_norm(x, (self.width,)) * (1 + a) + b)
        return F.layer_norm(x, (self.width,)) * (1 + c) + d


class Denoiser(nn.Module):
    """The same behind a layer of its own, with a loss: what a reader would hand over."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.inward, self.block = nn.Linear(width, width), Modulated(width)

    def forward(self, noisy, flow):
        return F.mse_loss(self.block(self.inward(noisy)), flow)
