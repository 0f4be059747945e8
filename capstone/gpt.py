"""GPT-2's training loss as one function of its weights: what the compiled rungs of the ladder are made of.

The weights are MiniGPT's, by MiniGPT's names, in whatever dtype they are kept. Each is cast where it is used, as
autocast does; a compiler makes the cast part of the kernel that reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from mini_model.model import GPTConfig

PRODUCTS = torch.bfloat16


def gelu(x: Tensor) -> Tensor:
    """GPT-2's, by its tanh."""
    return F.gelu(x, approximate="tanh")


def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Each [batch, heads, length, width], and so is what comes of them: nothing sees what follows it."""
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


class TiedHead(torch.autograd.Function):
    """Logits and mean cross entropy whose gradients are computed at once, some rows at a time.

    The gradient of a row of logits is its softmax less one at the target: it needs nothing that comes later, except
    the loss's own gradient, by which it is scaled. So logits are overwritten by their gradients, and of all rows'
    logits there is never more than one chunk.

    Where all logits are equal, the loss is ln 10, the logarithm of the vocabulary:

    >>> import torch
    >>> from capstone.gpt import TiedHead
    >>> TiedHead.apply(torch.zeros(8, 4), torch.ones(10, 4), torch.arange(8), 2)
    tensor(2.3026)
    """

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, table: Tensor, targets: Tensor, chunks: int) -> Tensor:
        """hidden [rows, dim] and table [vocabulary, dim] in one dtype, targets int64 [rows] -> 0-d float32."""
        losses, to_hidden, to_table = [], [], torch.zeros_like(table, dtype=torch.float32)
        ids = torch.arange(len(table), device=table.device)
        for rows, wanted in zip(hidden.chunk(chunks), targets.chunk(chunks), strict=True):
            logits = (rows @ table.T).float()
            total = logits.logsumexp(1, keepdim=True)
            losses.append(total[:, 0] - logits.gather(1, wanted[:, None])[:, 0])
            probabilities = (logits - total).exp()
            gradient = ((probabilities - (ids == wanted[:, None]).float()) / len(hidden)).to(hidden.dtype)
            to_hidden.append(gradient @ table)
            to_table += (gradient.T @ rows).float()
        ctx.save_for_backward(torch.cat(to_hidden), to_table.to(table.dtype))
        return torch.cat(losses).mean()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None, None]:
        to_hidden, to_table = ctx.saved_tensors
        return (to_hidden * gradient).to(to_hidden.dtype), (to_table * gradient).to(to_table.dtype), None, None


def training_loss(
    weights: Mapping[str, Tensor],
    tokens: Tensor,
    targets: Tensor,
    config: GPTConfig,
    *,
    stream: torch.dtype = torch.float32,
    chunks: int = 0,
    joined: bool = True,
    gelu: Callable[[Tensor], Tensor] = gelu,
    attention: Callable[[Tensor, Tensor, Tensor], Tensor] = attention,
    head: type[torch.autograd.Function] = TiedHead,
) -> Tensor:
    """The mean cross entropy in nats, 0-d float32, of a GPT with a tied head.

    tokens, targets: int64 [batch, length]. stream: the dtype in which the residual stream passes from block to block.
    chunks: with 0 the logits are written and autograd differentiates the loss; else they are ``head``'s, see
    `TiedHead`. joined: queries, keys and values are made by one matmul, or by one each. gelu, attention: other ways to
    compute the same.
    """

    def linear(x: Tensor, name: str) -> Tensor:
        weight, bias = weights[f"{name}.weight"], weights[f"{name}.bias"]
        return F.linear(x.to(PRODUCTS), weight.to(PRODUCTS), bias.to(PRODUCTS))

    def projected(x: Tensor, name: str) -> tuple[Tensor, ...]:
        """Queries, keys and values, [batch, heads, length, width]."""
        if joined:
            return linear(x, name).view(batch, length, 3, config.heads, -1).permute(2, 0, 3, 1, 4).unbind()
        thirds = zip(weights[f"{name}.weight"].chunk(3), weights[f"{name}.bias"].chunk(3), strict=True)
        made = [F.linear(x.to(PRODUCTS), weight.to(PRODUCTS), bias.to(PRODUCTS)) for weight, bias in thirds]
        return tuple(each.view(batch, length, config.heads, -1).transpose(1, 2) for each in made)

    def norm(x: Tensor, name: str) -> Tensor:
        weight, bias = weights[f"{name}.weight"], weights[f"{name}.bias"]
        return F.layer_norm(x.float(), x.shape[-1:], weight.float(), bias.float())

    batch, length = tokens.shape
    table, positions = weights["token_embedding.weight"], weights["position_embedding.weight"]
    x = F.embedding(tokens, table).to(stream) + positions[:length].to(stream)
    for i in range(config.layers):
        name = f"blocks.{i}"
        q, k, v = projected(norm(x, f"{name}.norm1"), f"{name}.attention.qkv")
        attended = attention(q, k, v).transpose(1, 2).flatten(2)
        x = x + linear(attended, f"{name}.attention.out")
        wide = gelu(linear(norm(x, f"{name}.norm2"), f"{name}.mlp.up"))
        x = x + linear(wide, f"{name}.mlp.down")
    hidden, wanted = norm(x, "norm").to(PRODUCTS).flatten(0, 1), targets.flatten()
    if chunks:
        return head.apply(hidden, table.to(PRODUCTS), wanted, chunks)
    return F.cross_entropy(F.linear(hidden, table.to(PRODUCTS)).float(), wanted)
