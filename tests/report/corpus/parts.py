"""The two parts that steps of several domains share."""

from itertools import pairwise

import torch.nn.functional as F
from torch import Tensor, nn


def mlp(*sizes: int, activation: type[nn.Module] = nn.ReLU) -> nn.Sequential:
    """Linear layers of these sizes with an activation between each two."""
    layers: list[nn.Module] = []
    for wide, narrow in pairwise(sizes):
        layers += [nn.Linear(wide, narrow), activation()]
    return nn.Sequential(*layers[:-1])


class Block(nn.Module):
    """A transformer's block with the norms in front."""

    def __init__(self, dim: int, heads: int = 4, causal: bool = False) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.feed = mlp(dim, 4 * dim, dim, activation=nn.GELU)

    def forward(self, x: Tensor) -> Tensor:
        rows, length, dim = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(rows, length, 3, self.heads, dim // self.heads).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        x = x + self.out(mixed.transpose(1, 2).reshape(rows, length, dim))
        return x + self.feed(self.norm2(x))
