"""A small diffusion transformer, built as video models are: each block's six chunks are cut from one parameter.

The two layer norms of a block are scaled and shifted by rows of a table, to which the time's embedding is added
(adaLN, [Peebles and Xie, 2023](https://arxiv.org/abs/2212.09748)); it learns to predict the flow from noise to data.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

CHANNELS, FREQUENCIES = 16, 32


class Attention(nn.Module):
    """Self-attention over all tokens of a sample."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        batch, tokens, dim = x.shape
        q, k, v = self.qkv(x).view(batch, tokens, 3, self.heads, dim // self.heads).permute(2, 0, 3, 1, 4)
        return self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, tokens, dim))


class AdaLNBlock(nn.Module):
    """A transformer's block whose layer norms take scale and shift from ``table``, a parameter of shape (1, 6, dim)."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(1, 6, dim) / dim**0.5)
        self.attention = Attention(dim, heads)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU("tanh"), nn.Linear(4 * dim, dim))

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        shift, scale, gate, shift_mlp, scale_mlp, gate_mlp = (self.table + time).chunk(6, dim=1)
        x = x + gate * self.attention(F.layer_norm(x, x.shape[-1:]) * (1 + scale) + shift)
        return x + gate_mlp * self.mlp(F.layer_norm(x, x.shape[-1:]) * (1 + scale_mlp) + shift_mlp)


class DiffusionTransformer(nn.Module):
    """Predicts the flow from noise to data; its result is the loss. Tokens have `CHANNELS` numbers each."""

    def __init__(self, tokens: int, dim: int, blocks: int, heads: int) -> None:
        super().__init__()
        self.inward, self.outward = nn.Linear(CHANNELS, dim), nn.Linear(dim, CHANNELS)
        self.positions = nn.Parameter(0.02 * torch.randn(1, tokens, dim))
        self.time = nn.Sequential(nn.Linear(2 * FREQUENCIES, dim), nn.SiLU(), nn.Linear(dim, 6 * dim))
        self.blocks = nn.ModuleList(AdaLNBlock(dim, heads) for _ in range(blocks))

    def forward(self, noisy: Tensor, time: Tensor, flow: Tensor) -> Tensor:
        angles = 1000 * time[:, None] * torch.exp(-9.2 * torch.arange(FREQUENCIES, device=time.device) / FREQUENCIES)
        embedded = self.time(torch.cat([angles.sin(), angles.cos()], -1)).view(len(time), 6, -1)
        x = self.inward(noisy) + self.positions
        for block in self.blocks:
            x = block(x, embedded)
        return F.mse_loss(self.outward(F.layer_norm(x, x.shape[-1:])), flow)


def flow_batch(batch: int, tokens: int, draw: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """A batch of waves on their way from noise: the noisy tokens, the time of each sample, and the flow to predict."""
    device, shape = draw.device, (batch, 1, CHANNELS)
    phase = torch.rand(shape, device=device, generator=draw)
    cycles = 0.002 + 0.05 * torch.rand(shape, device=device, generator=draw)
    at = torch.arange(tokens, device=device)[None, :, None]
    data = torch.sin(2 * torch.pi * (cycles * at + phase))
    time = torch.rand(batch, device=device, generator=draw)
    noise = torch.randn(data.shape, device=device, generator=draw)
    share = time[:, None, None]
    return (1 - share) * data + share * noise, time, noise - data
