"""Chains of operations, where fusion leaves roundings out: eager and compiled, each against float64.

Eager writes every intermediate in the precision of the inputs. A fused kernel keeps it in a register, in fp32.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from compile_lab.doors import door
from compile_lab.measure.judge import relative_error

from .operators import PRECISIONS, ErrorRow, float32_multiplied_in
from .together import JudgedCall, compiled_together

ROWS, DIM = 256, 128


def pointwise(a: Tensor, b: Tensor) -> Tensor:
    """Five operations, each of one element."""
    return (a * b + a).sigmoid() / (b.exp() + 1)


def softmax_in_steps(a: Tensor, b: Tensor) -> Tensor:
    """Over the last axis, written out."""
    weights = torch.exp(a - a.amax(-1, keepdim=True))
    return weights / weights.sum(-1, keepdim=True)


def layer_norm_in_steps(a: Tensor, b: Tensor) -> Tensor:
    """Over the last axis, written out."""
    centred = a - a.mean(-1, keepdim=True)
    return centred * torch.rsqrt(centred.square().mean(-1, keepdim=True) + 1e-5)


def gelu_in_steps(a: Tensor, b: Tensor) -> Tensor:
    """With tanh, written out."""
    return 0.5 * a * (1 + torch.tanh(math.sqrt(2 / math.pi) * (a + 0.044715 * a**3)))


def cross_entropy_in_steps(a: Tensor, b: Tensor) -> Tensor:
    """Of each row, whose class is its largest in ``b``."""
    return torch.logsumexp(a, -1) - a.gather(-1, b.argmax(-1, keepdim=True)).squeeze(-1)


def attention_in_steps(a: Tensor, b: Tensor) -> Tensor:
    """Rows of ``a`` look at rows of ``b``."""
    return softmax_in_steps(a @ b.T / math.sqrt(a.shape[-1]), b) @ b


def mlp(a: Tensor, b: Tensor) -> Tensor:
    """Up, GELU, down, added; ``b`` holds the weights."""
    return a + F.gelu(a @ b.T * DIM**-0.5) @ b / DIM


CHAINS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "pointwise": pointwise,
    "softmax, in steps": softmax_in_steps,
    "softmax": lambda a, b: F.softmax(a, -1),
    "layer norm, in steps": layer_norm_in_steps,
    "layer norm": lambda a, b: F.layer_norm(a, a.shape[-1:]),
    "GELU, in steps": gelu_in_steps,
    "GELU": lambda a, b: F.gelu(a, approximate="tanh"),
    "cross-entropy, in steps": cross_entropy_in_steps,
    "attention, in steps": attention_in_steps,
    "attention": lambda a, b: F.scaled_dot_product_attention(a[None, None], b[None, None], b[None, None])[0, 0],
    "MLP": mlp,
}
"""Each of two matrices of normal random numbers, [ROWS, DIM] each."""

EAGER, COMPILED, EMULATED = "eager", "compiled", "emulate_precision_casts"
POINTWISE, STRICT = "numerics: strict_pointwise", "numerics: strict"
WAYS: dict[str, dict[str, Any] | None] = {
    EAGER: None,
    COMPILED: {},
    EMULATED: {"emulate_precision_casts": True},
    POINTWISE: {"numerics": "strict_pointwise"},
    STRICT: {"numerics": "strict"},
    "deterministic": {"deterministic": True},
    "eager_numerics.division_rounding": {"eager_numerics.division_rounding": True},
    "eager_numerics.disable_ftz": {"eager_numerics.disable_ftz": True},
    "eager_numerics.use_pytorch_libdevice": {"eager_numerics.use_pytorch_libdevice": True},
}
"""Options of Inductor for each way to compile; None is eager. What a torch lacks is named in `stopped`."""
CPU_WAYS = (EAGER, COMPILED, EMULATED)
"""`numerics` came with torch 2.15; the options after it speak to Triton's code alone."""


@door
@dataclass(frozen=True)
class ChainError(ErrorRow):
    """A chain in one precision, run one way: its error against float64, and how near it is to eager.

    ``rounding``: the exact result rounded to the precision. ``equal``: share of elements bitwise as in eager.

    >>> from chapters.is_it_right.rounding.chains import ChainError
    >>> ChainError("softmax", "bf16", "compiled", error=0.001654321, rounding=0.001612345, equal=0.875).to_json()
    {'chain': 'softmax', 'precision': 'bf16', 'way': 'compiled', 'error': 0.0016543, 'rounding': 0.0016123,
    'equal': 0.875, 'stopped': ''}
    """

    chain: str
    precision: str
    way: str
    error: float | None = None
    rounding: float | None = None
    equal: float | None = None
    stopped: str = ""


@door
def chains_judged(precision: str = "bf16", device: str = "cpu", ways: tuple[str, ...] = CPU_WAYS) -> list[ChainError]:
    """Every chain, each way, against float64 on the same rounded inputs. Seeded. ≈ 10 CPU s for three ways.

    Raises ValueError for a way or a precision that is not known.

    Eager alone is quick; bitwise it is what eager is, in every chain:

    >>> from chapters.is_it_right.rounding.chains import chains_judged
    >>> eager = chains_judged(ways=("eager",))
    >>> len(eager), {each.equal for each in eager}
    (11, {1.0})
    """
    if unknown := [way for way in ways if way not in WAYS]:
        raise ValueError(f"no way is called {', '.join(map(repr, unknown))}: there are {', '.join(WAYS)}")
    if precision not in PRECISIONS:
        raise ValueError(f"precision={precision!r} is not known; it is one of {', '.join(map(repr, PRECISIONS))}")
    drawn = torch.Generator().manual_seed(0)
    dtype = PRECISIONS[precision]
    inputs = [torch.randn(ROWS, DIM, generator=drawn).to(device, dtype) for _ in range(2)]
    calls = [JudgedCall(name, fn, tuple(each.clone() for each in inputs)) for name, fn in CHAINS.items()]
    exact = [call.fn(*(each.double() for each in call.args)) for call in calls]
    found: list[ChainError] = []
    with float32_multiplied_in(precision), torch.no_grad():
        eager = [call() for call in calls]
        for way in ways:
            options = WAYS[way]
            results = eager if options is None else [each.stopped or each.result for each in _tried(calls, options)]
            for call, truth, plain, y in zip(calls, exact, eager, results, strict=True):
                if isinstance(y, str):
                    found.append(ChainError(call.name, precision, way, stopped=y))
                    continue
                errors = relative_error(y, truth), relative_error(truth.to(dtype), truth)
                found.append(ChainError(call.name, precision, way, *errors, (y == plain).double().mean().item()))
    return found


def _tried(calls: list[JudgedCall], options: dict[str, Any]) -> list[Any]:
    """One unknown option stops all chains for one reason: it is tried on one chain before the others are compiled."""
    first = compiled_together(calls[:1], options)
    return first * len(calls) if first[0].stopped else compiled_together(calls, options)
