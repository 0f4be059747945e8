"""Attention's forward and backward as two plain calls, so that a schedule can put other work between them.

The kernels are the library's, cuDNN's on a GPU. They are reached through autograd, which is asked for one half at a
time; what the backward needs is kept alive by the tensors that the forward hands back.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel


@dataclass(frozen=True)
class Attended:
    """Causal attention's answer, [batch, heads, length, width], and what its gradient is asked for."""

    out: Tensor
    inputs: tuple[Tensor, Tensor, Tensor]

    def backward(self, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The gradients of queries, keys and values, each [batch, heads, length, width]. Works once."""
        return torch.autograd.grad(self.out, self.inputs, gradient)


def attend(q: Tensor, k: Tensor, v: Tensor) -> Attended:
    """Causal attention of [batch, heads, length, width] each: cuDNN's for 16 bits on a GPU, else torch's choice."""
    inputs = tuple(each.detach().requires_grad_() for each in (q, k, v))
    with torch.enable_grad(), _backend(q):
        return Attended(F.scaled_dot_product_attention(*inputs, is_causal=True), inputs)


def _backend(q: Tensor) -> AbstractContextManager:
    if q.is_cuda and q.dtype in (torch.bfloat16, torch.float16):
        return sdpa_kernel(SDPBackend.CUDNN_ATTENTION)
    return nullcontext()
