"""Inside a child: NVIDIA's device library, which is machine code. torch has the same functions for the CPU."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import triton.language as tl
from triton.runtime.interpreter import TensorHandle

from .errors import UnsupportedKernel

_SAME_IN_TORCH = {
    *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "pow", "ldexp"),
    *("erf", "erfc", "erfinv", "lgamma"),
    *("sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh"),
    *("floor", "ceil", "trunc", "hypot", "fmod", "copysign", "nextafter", "isnan", "isinf", "signbit"),
}
_OTHERWISE = {
    "abs": torch.abs,
    "fabs": torch.abs,
    "rint": torch.round,
    "nearbyint": torch.round,
    "llrint": torch.round,
    "fast_tanhf": torch.tanh,
    "mul_rn": torch.mul,
    "div_rn": torch.div,
    "cyl_bessel_i0": torch.special.i0,
    "cyl_bessel_i1": torch.special.i1,
    "j0": torch.special.bessel_j0,
    "j1": torch.special.bessel_j1,
    "y0": torch.special.bessel_y0,
    "y1": torch.special.bessel_y1,
    "erfcx": torch.special.erfcx,
    "ilogb": lambda x: torch.frexp(x).exponent - 1,
}
_WHOLE = {"ilogb": (tl.int32, np.int32), "llrint": (tl.int64, np.int64)}
"""What returns whole numbers."""


class _Libdevice:
    """The functions by their names there. UnsupportedKernel for one that has no stand-in."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("__"):
            raise AttributeError(name)  # Python asks whether it wraps something
        if name not in _SAME_IN_TORCH and name not in _OTHERWISE:
            raise UnsupportedKernel(f"libdevice.{name} has no stand-in on the CPU")
        function = _OTHERWISE.get(name) or getattr(torch, name)

        def call(*args: Any) -> Any:
            data = [
                torch.as_tensor(arg.handle.data if hasattr(arg, "handle") else getattr(arg, "value", arg))
                for arg in args
            ]
            first = next(arg for arg in args if hasattr(arg, "handle"))
            kind, held = _WHOLE.get(name, (first.dtype, first.handle.data.dtype))
            shape = [int(size) for size in first.shape]
            type_ = tl.block_type(kind, shape) if shape else kind
            return tl.core.tensor(TensorHandle(function(*data).numpy().astype(held), kind), type_)

        return call


libdevice = _Libdevice()
