"""Two ways to run an eager program once more: every operation in float64, or every operand moved by up to an ulp.

The first is what counts as exact; it holds for code that names float32 itself, too. The second measures what rounding
may do: how far a result goes when each operand of each operation, forward and backward, moves as rounding moves it.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

SHORT = dict.fromkeys((torch.float32, torch.bfloat16, torch.float16), torch.float64)
SHORT |= {torch.complex64: torch.complex128, torch.complex32: torch.complex128}
"""The dtypes that are widened, and to what."""
_COPIES = ("empty", "_to_copy", "clone")
_CHOOSES = ("max", "min", "amax", "amin", "argmax", "argmin", "sort", "topk", "bucketize", "searchsorted")
_COMPARES = ("eq.", "ne.", "lt.", "le.", "gt.", "ge.", "isclose")
_CUTS = ("floor", "ceil", "round", "trunc", "sign.", "remainder", "fmod")
ROUND_NOTHING = tuple(f"aten::{each}" for each in (*_COPIES, *_CHOOSES, *_COMPARES, *_CUTS))
"""Operations whose result is exact: what they are given does not move, so the largest of some numbers stays equal to
one of them. A last bit that decides something was moved in the operation that made it."""


class Exactly(TorchDispatchMode):
    """Every floating result is float64. Random numbers are drawn as the program draws them, and then widened; so is
    what an operation makes that has no code for float64."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if torch.Tag.nondeterministic_seeded in func.tags:
            return self._drawn(func, args, kwargs)
        args, kwargs = tree_map(widened, (args, kwargs))
        try:
            return tree_map(widened, func(*args, **kwargs))
        except RuntimeError:
            args, kwargs = tree_map(_narrowed, (args, kwargs))
            return tree_map(widened, func(*args, **kwargs))

    @staticmethod
    def _drawn(func: Any, args: Any, kwargs: Any) -> Any:
        short = tree_map(_narrowed, (args, kwargs))
        made = func(*short[0], **short[1])
        written = func._schema.arguments[0].alias_info if func._schema.arguments else None
        if written is not None and written.is_write:  # in place, into a float64 tensor
            return args[0].copy_(made)
        return tree_map(widened, made)


class Jitter(TorchDispatchMode):
    """Every floating operand of an operation that makes new memory moves by up to one ulp of its dtype, at random."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.generator = torch.Generator().manual_seed(seed)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        schema = func._schema
        shares = any(each.alias_info is not None for each in (*schema.arguments, *schema.returns))
        exact = func.name().startswith(ROUND_NOTHING) or kwargs.get("rounding_mode")
        if func.namespace == "aten" and not shares and not exact:
            # batch_norm changes its running statistics, too, though its schema does not say so
            if "batch_norm" in schema.name:
                args = (self._summed(args[0], [each for each in range(args[0].ndim) if each != 1]), *args[1:])
            elif schema.name in ("aten::sum", "aten::mean"):
                given = args[1] if len(args) > 1 else None
                args = (self._summed(args[0], given if isinstance(given, list | tuple) else None), *args[1:])
            else:
                args, kwargs = tree_map(self._moved, (args, kwargs))
        return func(*args, **kwargs)

    def _summed(self, value: Any, axes: Sequence[int] | None) -> Any:
        """What is summed over ``axes``, one element after another: the sum is off by more than its elements, and no
        operation in eager mode need show it, which sums in a tree. Each addition rounds what is summed until then: that
        is up to an ulp of each element, and where all have one sign half the square root of their number more."""
        moved = self._moved(value)
        if moved is value or value.dtype != torch.float32:  # what is shorter is summed in float32
            return moved
        mean, size = value.mean(axes, keepdim=True), value.abs().mean(axes, keepdim=True)
        ulps = size + mean.abs() * (0.5 * math.sqrt(value.numel() / mean.numel()))
        shifted = moved + torch.finfo(value.dtype).eps * ulps * self._drawn(mean)
        return torch.where(shifted.isfinite(), shifted, moved)

    def _moved(self, value: Any) -> Any:
        if not isinstance(value, Tensor) or value.layout != torch.strided or not value.numel():
            return value
        if not (value.is_floating_point() or value.is_complex()):
            return value
        value = value.resolve_conj()
        moved = torch.addcmul(value, value, self._drawn(value), value=torch.finfo(value.dtype).eps)
        return torch.where(moved.isfinite(), moved, value)  # a mask's largest number must not become infinite

    def _drawn(self, value: Tensor) -> Tensor:
        """Numbers between -1 and 1, as many as there are."""
        dtype = torch.complex64 if value.is_complex() else torch.float32
        draw = torch.rand(value.shape, generator=self.generator, dtype=dtype).mul_(2)
        return draw.sub_(1 + 1j if value.is_complex() else 1).to(value)


def widened(value: Any) -> Any:
    """A dtype, or a tensor, as it is where all is exact; anything else as it is."""
    if isinstance(value, torch.dtype):
        return SHORT.get(value, value)
    return value.to(SHORT.get(value.dtype, value.dtype)) if isinstance(value, Tensor) else value


def _narrowed(value: Any) -> Any:
    if value is torch.float64:  # a draw like a widened tensor: of float32, it is the program's own
        return torch.float32
    if isinstance(value, Tensor) and value.dtype in (torch.float64, torch.complex128):
        return value.to(torch.complex64 if value.is_complex() else torch.float32)
    return value
