"""Two ways to run an eager program once more: every operation in float64, or every operand moved by up to an ulp.

The first is what counts as exact; it holds for code that names float32 itself, too. The second measures what rounding
may do: how far a result goes when each operand of each operation, forward and backward, moves as rounding moves it.
"""

from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

SHORT = (torch.float32, torch.bfloat16, torch.float16)
COMPUTE_NOTHING = ("aten::empty", "aten::_to_copy", "aten::clone")
"""Operations that compute nothing: what they are given does not move."""


class Exactly(TorchDispatchMode):
    """Every floating result is float64. Random numbers are drawn as the program draws them, and then widened."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if torch.Tag.nondeterministic_seeded in func.tags:
            return self._drawn(func, args, kwargs)
        args, kwargs = tree_map(_widened, (args, kwargs))
        return tree_map(_widened, func(*args, **kwargs))

    @staticmethod
    def _drawn(func: Any, args: Any, kwargs: Any) -> Any:
        short = tree_map(lambda each: each.float() if _is(each, torch.float64) else each, (args, kwargs))
        made = func(*short[0], **short[1])
        written = func._schema.arguments[0].alias_info if func._schema.arguments else None
        if written is not None and written.is_write:  # in place, into a float64 tensor
            return args[0].copy_(made)
        return tree_map(_widened, made)


class Jitter(TorchDispatchMode):
    """Every floating operand of an operation that makes new memory moves by up to one ulp of its dtype, at random."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.generator = torch.Generator().manual_seed(seed)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        schema = func._schema
        shares = any(each.alias_info is not None for each in (*schema.arguments, *schema.returns))
        if func.namespace == "aten" and not shares and not schema.name.startswith(COMPUTE_NOTHING):
            if "batch_norm" in schema.name:  # changes its running statistics, though its schema does not say so
                args = (self._moved(args[0]), *args[1:])
            else:
                args, kwargs = tree_map(self._moved, (args, kwargs))
        return func(*args, **kwargs)

    def _moved(self, value: Any) -> Any:
        if not isinstance(value, Tensor) or not value.is_floating_point() or not value.numel():
            return value
        draw = torch.rand(value.shape, generator=self.generator, dtype=torch.float32).mul_(2).sub_(1).to(value)
        moved = torch.addcmul(value, value, draw, value=torch.finfo(value.dtype).eps)
        return torch.where(moved.isfinite(), moved, value)  # a mask's largest number must not become infinite


def _is(value: Any, *dtypes: torch.dtype) -> bool:
    return isinstance(value, Tensor) and value.dtype in dtypes


def _widened(value: Any) -> Any:
    if isinstance(value, torch.dtype):
        return torch.float64 if value in SHORT else value
    return value.double() if _is(value, *SHORT) else value
