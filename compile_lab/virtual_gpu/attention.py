"""CPU stand-ins for the attention kernels that only a CUDA build has: what an extern call of generated code computes.

With S = scale·QKᵀ + bias, P = softmax(S), dropout's Z (0, or 1/(1 − p)), O = (P∘Z)V: dV = (P∘Z)ᵀ·dO, dP = dO·Vᵀ∘Z,
dS = P∘(dP − rowsum(P∘dP)), dQ = scale·dS·K, dK = scale·dSᵀ·Q, dbias = dS (Dao et al. 2022, *FlashAttention*, appendix
B). Computed in fp32, or fp64 for fp64. Z is drawn as eager's attention on a CPU draws it.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .._torch.virtual_gpu import virtual_gpu_pieces

_kept: list[torch.library.Library] = []
_drawn: list[Tensor] = []
"""Dropout's Z of each forward; its number is what stands for the GPU's seed, which the backward is given."""


def register() -> None:
    """Give the CPU the three fused attentions, forward and backward."""
    library = torch.library.Library("aten", "IMPL")
    for kind in ("efficient", "flash", "cudnn"):
        name = f"_scaled_dot_product_{kind}_attention"
        library.impl(name, _stand_in(name, _forward), "CPU")
        library.impl(f"{name}_backward", _stand_in(f"{name}_backward", _backward), "CPU")
    _kept.append(library)  # registered as long as it lives


def _stand_in(name: str, compute: Callable[..., list[Tensor]]) -> Callable[..., Any]:
    overload = getattr(torch.ops.aten, name).default
    arguments = overload._schema.arguments
    seeds = [i for i, each in enumerate(overload._schema.returns) if each.name in ("philox_seed", "rng_state")]

    def call(*args: Any, **kwargs: Any) -> Any:
        named = {each.name: each.default_value for each in arguments if each.has_default_value()}
        named |= dict(zip((each.name for each in arguments), args, strict=False)) | kwargs
        shapes = _on_cuda(overload, args, kwargs)
        results = dict(enumerate(compute(named)))
        if named["dropout_p"] and seeds:
            results[seeds[0]] = torch.tensor(len(_drawn) - 1)
        return tuple(_laid_out(shape, results.get(i)) for i, shape in enumerate(shapes))

    return call


def _on_cuda(overload: Any, args: Any, kwargs: Any) -> Any:
    """The shapes and strides that the CUDA kernel would return, from torch's own rules for fake tensors."""
    with virtual_gpu_pieces().FakeTensorMode():

        def fake(value: Any) -> Any:
            if not isinstance(value, Tensor):
                return value
            return torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device="cuda")

        return overload(*map(fake, args), **{key: fake(value) for key, value in kwargs.items()})


def _laid_out(shape: Any, value: Tensor | None) -> Any:
    if not isinstance(shape, Tensor):
        return shape
    made = torch.zeros(0, dtype=shape.dtype).new_empty_strided(shape.size(), shape.stride()).zero_()
    if value is not None and made.numel():
        value = value.reshape((*value.shape, *[1] * (made.ndim - value.ndim)))  # cuDNN's log-sum-exp has a column
        made[tuple(slice(0, n) for n in value.shape)].copy_(value)  # the log-sum-exp is padded
    return made


def _forward(named: dict[str, Any]) -> list[Tensor]:
    scores, _ = _scores(named)
    p = scores.softmax(-1)
    if named["dropout_p"]:
        _drawn.append(torch.empty_like(p).bernoulli_(1 - named["dropout_p"]) / (1 - named["dropout_p"]))
        p = p * _drawn[-1]
    return [p @ _wide(named["value"]), scores.logsumexp(-1)]


def _backward(named: dict[str, Any]) -> list[Tensor]:
    scores, scale = _scores(named)
    p = scores.softmax(-1)
    z = _drawn[int(named["philox_seed"].flatten()[0])] if named["dropout_p"] else torch.ones(())
    q, k, v = (_wide(named[name]) for name in ("query", "key", "value"))
    grad = _wide(named["grad_out_"] if "grad_out_" in named else named["grad_out"])
    dp = grad @ v.transpose(-2, -1) * z
    ds = p * (dp - (p * dp).sum(-1, keepdim=True))
    return [scale * ds @ k, scale * ds.transpose(-2, -1) @ q, (p * z).transpose(-2, -1) @ grad, ds]


def _scores(named: dict[str, Any]) -> tuple[Tensor, float]:
    q, k = _wide(named["query"]), _wide(named["key"])
    scale = named["scale"] if named["scale"] is not None else 1 / math.sqrt(q.shape[-1])
    scores = scale * q @ k.transpose(-2, -1)
    if named.get("attn_bias") is not None:
        scores = scores + named["attn_bias"]
    if named["is_causal"]:
        later = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        scores = scores.masked_fill(later, -math.inf)
    return scores, scale


def _wide(tensor: Tensor) -> Tensor:
    return tensor if tensor.dtype == torch.float64 else tensor.float()
