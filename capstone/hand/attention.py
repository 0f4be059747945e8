"""Attention's forward and backward as two plain calls, so that a schedule can put other work between them.

On a GPU the kernels are cuDNN's. Its own front end (the package ``nvidia-cudnn-frontend``) is told where each tensor
lies, and so the gradients of queries, keys and values are written side by side, as the linear before them wants its
gradient. Without that package the same kernels are reached through torch's autograd, and so is a CPU's attention: then
the three gradients are put together by a copy.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

FRONT_END = "cudnn"


@dataclass(frozen=True)
class Attended:
    """Causal attention's answer, [rows, heads · width], and its gradient: of the answer's, [rows, 3 · heads · width]
    with queries', keys' and values' side by side. The gradient can be asked for once."""

    out: Tensor
    backward: Callable[[Tensor], Tensor]


def attend(qkv: Tensor, heads: int) -> Attended:
    """Causal attention of qkv, [batch, length, 3 · heads · width], queries, keys and values side by side."""
    batch, length, columns = qkv.shape
    shape = (batch, length, 3, heads, columns // (3 * heads))
    if front_end() and qkv.is_cuda and qkv.dtype == torch.bfloat16:
        return _by_the_front_end(qkv.view(shape))
    return _by_autograd(qkv.view(shape))


def front_end() -> str | None:
    """The version of cuDNN's front end, if it is installed."""
    return import_module(FRONT_END).__version__ if find_spec(FRONT_END) else None


def _by_autograd(qkv: Tensor) -> Attended:
    query, key, value = inputs = tuple(each.detach().requires_grad_() for each in _three(qkv))
    with torch.enable_grad(), _backend(qkv):
        out = F.scaled_dot_product_attention(query, key, value, is_causal=True)

    def backward(gradient: Tensor) -> Tensor:
        batch, heads, length, width = out.shape
        gradient = gradient.view(batch, length, heads, width).transpose(1, 2)
        thirds = torch.autograd.grad(out, inputs, gradient)
        return torch.cat([_rows(each) for each in thirds], 1)

    return Attended(_rows(out.detach()), backward)


def _backend(qkv: Tensor) -> AbstractContextManager:
    if qkv.is_cuda and qkv.dtype in (torch.bfloat16, torch.float16):
        return sdpa_kernel(SDPBackend.CUDNN_ATTENTION)
    return nullcontext()


def _by_the_front_end(qkv: Tensor) -> Attended:
    batch, length, _, heads, width = qkv.shape
    graphs = _AttentionPlans.of(batch, heads, length, width, qkv.device)
    out = qkv.new_empty(batch, length, heads, width)
    mass = qkv.new_empty(batch, heads, length, 1, dtype=torch.float32)
    graphs.forward(*_three(qkv), out, mass)

    def backward(gradient: Tensor) -> Tensor:
        packed = torch.empty_like(qkv)
        gradient = gradient.view(out.shape)
        graphs.backward(*_three(qkv), out, gradient, mass, *_three(packed))
        return packed.view(batch * length, 3 * heads * width)

    return Attended(out.view(batch * length, heads * width), backward)


class _AttentionPlans:
    """cuDNN's plans for one shape, and the memory that they work in."""

    def __init__(self, batch: int, heads: int, length: int, width: int, device: torch.device) -> None:
        self.cudnn, self.device = import_module(FRONT_END), device
        self.handle = _handle(device)
        self.dim, self.scale, dim = [batch, heads, length, width], width**-0.5, heads * width
        self.packed, self.apart = ([length * of, width, of, 1] for of in (3 * dim, dim))
        self.mass = [batch, heads, length, 1], [heads * length, length, 1, 1]
        self.forward, self.backward = self._planned(self._forward), self._planned(self._backward)

    @staticmethod
    @functools.cache
    def of(batch: int, heads: int, length: int, width: int, device: torch.device) -> _AttentionPlans:
        return _AttentionPlans(batch, heads, length, width, device)

    def _forward(self, graph: Any) -> list[Any]:
        qkv = [self._given(graph, self.packed) for _ in range(3)]
        out, mass = graph.sdpa(*qkv, generate_stats=True, attn_scale=self.scale, use_causal_mask=True)
        self._wanted(out, self.apart)
        shape, stride = self.mass
        mass.set_output(True).set_dim(shape).set_stride(stride).set_data_type(self.cudnn.data_type.FLOAT)
        return [*qkv, out, mass]

    def _backward(self, graph: Any) -> list[Any]:
        qkv = [self._given(graph, self.packed) for _ in range(3)]
        out, gradient = (self._given(graph, self.apart) for _ in range(2))
        shape, stride = self.mass
        mass = graph.tensor(dim=shape, stride=stride, data_type=self.cudnn.data_type.FLOAT)
        options = {"attn_scale": self.scale, "use_causal_mask": True}
        thirds = graph.sdpa_backward(*qkv, out, gradient, mass, **options)
        for each in thirds:
            self._wanted(each, self.packed)
        return [*qkv, out, gradient, mass, *thirds]

    def _given(self, graph: Any, stride: list[int]) -> Any:
        return graph.tensor(dim=self.dim, stride=stride, data_type=self.cudnn.data_type.BFLOAT16)

    def _wanted(self, tensor: Any, stride: list[int]) -> None:
        tensor.set_output(True).set_dim(self.dim).set_stride(stride)

    def _planned(self, write: Callable[[Any], list[Any]]) -> Callable[..., None]:
        """A call that takes the graph's tensors in the order in which `write` names them."""
        kinds = self.cudnn.data_type
        types = {"io_data_type": kinds.BFLOAT16, "intermediate_data_type": kinds.FLOAT}
        graph = self.cudnn.pygraph(**types, compute_data_type=kinds.FLOAT, handle=self.handle)
        names = write(graph)
        graph.build([self.cudnn.heur_mode.A])
        room = torch.empty(max(1, graph.get_workspace_size()), dtype=torch.uint8, device=self.device)

        def run(*tensors: Tensor) -> None:
            stream = torch.cuda.current_stream(self.device).cuda_stream
            self.cudnn.set_stream(handle=self.handle, stream=stream)
            graph.execute(dict(zip(names, tensors, strict=True)), room, handle=self.handle)

        return run


@functools.cache
def _handle(device: torch.device) -> Any:
    with torch.cuda.device(device):
        return import_module(FRONT_END).create_handle()


def _three(qkv: Tensor) -> tuple[Tensor, ...]:
    """Queries, keys and values, views [batch, heads, length, width] of [batch, length, 3, heads, width]."""
    return qkv.permute(2, 0, 3, 1, 4).unbind(0)


def _rows(x: Tensor) -> Tensor:
    """[batch, heads, length, width] as [batch · length, heads · width]: no copy, as cuDNN lays it out."""
    batch, heads, length, width = x.shape
    return x.transpose(1, 2).reshape(batch * length, heads * width)
