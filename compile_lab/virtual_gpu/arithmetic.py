"""Inside a child: the chip's arithmetic, where Triton's interpreter computes otherwise.

Triton 3.6 and 3.7 interpret with numpy, which knows neither bf16 nor fp8: their bits are kept as whole numbers, are
added and compared as such, and a cast cuts off. `ml_dtypes` gives numpy these types. What else is replaced here is what
an H100 was seen to do: of a number and NaN the maximum is the number, a cast to fp8 ends at its largest number.
"""

import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import triton.language as tl
from triton.runtime import interpreter as triton_interpreter
from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

from .._torch.virtual_gpu import interpreter_pieces
from . import libdevice, words
from .errors import UnsupportedKernel

NARROW = {
    tl.bfloat16: np.dtype(ml_dtypes.bfloat16),
    tl.float8e5: np.dtype(ml_dtypes.float8_e5m2),
    tl.float8e4nv: np.dtype(ml_dtypes.float8_e4m3fn),
    tl.float8e5b16: np.dtype(ml_dtypes.float8_e5m2fnuz),
    tl.float8e4b8: np.dtype(ml_dtypes.float8_e4m3fnuz),
}
"""What numpy itself has not. Triton's other fp8, e4b15, has no twin: it stays a whole number, with Triton's casts."""

_triton_dtype = triton_interpreter._get_np_dtype
_triton_cast = triton_interpreter._convert_float


def install() -> None:
    """For the rest of this process."""
    triton_interpreter._get_np_dtype = numpy_dtype
    words.install()
    for name, function in _BUILDER.items():
        setattr(InterpreterBuilder, name, function)
    triton_interpreter.ReduceOps.sum = _sum
    _count_by_one_element()
    helpers = interpreter_pieces().triton_helpers
    helpers.libdevice = libdevice.libdevice
    helpers.set_driver_to_gpu = lambda: None
    # A reduction with a function of its own runs element by element in Python; these are maxima and minima.
    helpers.max2, helpers.min2 = _extreme(np.max), _extreme(np.min)
    helpers.max_with_index, helpers.min_with_index = _extreme_with_index(np.max), _extreme_with_index(np.min)


def saturate_integers() -> None:
    """As a chip casts, and torch on a CPU does not: a number beyond an integer's range becomes its end, and NaN 0 or,
    in 64 bits, the smallest.
    """
    InterpreterBuilder.create_fp_to_si = InterpreterBuilder.create_fp_to_ui = _saturated


def argument(value: Any) -> Any:
    """A launch hands a Python float over as fp32, and a bool as one bit."""
    kinds = {bool: (np.bool_, tl.int1), float: (np.float32, tl.float32)}
    if type(value) not in kinds:
        return value
    held, kind = kinds[type(value)]
    return _tensor(np.array([value], held), kind)


def numpy_dtype(kind: Any) -> np.dtype:
    """The dtype of the array that holds such elements."""
    pointed = isinstance(kind, tl.pointer_type) or isinstance(getattr(kind, "element_ty", None), tl.pointer_type)
    return _triton_dtype(kind) if pointed or kind.scalar not in NARROW else NARROW[kind.scalar]


def _tensor(data: np.ndarray, kind: Any, shape: Any = None) -> Any:
    return tl.core.tensor(TensorHandle(data, kind), tl.block_type(kind, list(shape)) if shape else kind)


def _bits(data: np.ndarray) -> np.ndarray:
    return data.view(f"u{data.itemsize}") if data.dtype in NARROW.values() else data


def _as_float32(handle: TensorHandle) -> TensorHandle:
    narrow = handle.dtype.scalar in NARROW
    return TensorHandle(handle.data.astype(np.float32), tl.float32) if narrow else handle


_triton_load = InterpreterBuilder.create_masked_load
_triton_dot = InterpreterBuilder.create_dot
_triton_ones = InterpreterBuilder.get_all_ones_value
_triton_sum = triton_interpreter.ReduceOps.sum
_triton_rmw = InterpreterBuilder.create_atomic_rmw


def _masked_load(self: Any, ptrs: Any, mask: Any, other: Any, *how: Any, **named: Any) -> TensorHandle:
    kind = ptrs.get_element_ty()
    if kind not in NARROW:
        return _triton_load(self, ptrs, mask, other, *how, **named)
    bits = np.zeros(ptrs.data.shape, f"u{NARROW[kind].itemsize}") if other is None else _bits(other.data)
    loaded = triton_interpreter._interpreter.load(ptrs.data, mask.data, bits, bits.dtype)
    return TensorHandle(loaded.view(NARROW[kind]), kind)


def _masked_store(self: Any, ptrs: Any, value: Any, mask: Any, *_: Any, **__: Any) -> Any:
    return triton_interpreter._interpreter.store(ptrs.data, _bits(value.data), mask.data)


def _cast(self: Any, source: Any, target: Any, rounding: Any = None) -> TensorHandle:
    kind = target.scalar
    values = source.data
    if tl.float8e4b15 in (source.dtype.scalar, kind):
        bits = _triton_cast(values, source.dtype.scalar, kind, rounding)
        return TensorHandle(bits.view(numpy_dtype(kind)), kind)
    if kind in NARROW and kind.primitive_bitwidth == 8:  # a chip's cast ends at the largest number
        end = float(ml_dtypes.finfo(NARROW[kind]).max)
        values = np.clip(values.astype(np.float32), -end, end)
    with np.errstate(over="ignore", invalid="ignore"):
        nearest = values.astype(numpy_dtype(kind))
        if rounding == triton_interpreter._ir.ROUNDING_MODE.RTZ:
            too_far = np.isfinite(values) & (abs(nearest.astype(np.float64)) > abs(values.astype(np.float64)))
            nearest = np.where(too_far, np.nextafter(nearest, np.zeros_like(nearest)), nearest)
    return TensorHandle(nearest, kind)


def _saturated(self: Any, source: Any, target: Any) -> TensorHandle:
    held = numpy_dtype(target)
    wide = held if held.itemsize > 1 else np.dtype(f"{held.kind}2")  # a byte is cut from what 16 bits hold
    ends, values = np.iinfo(wide), source.data.astype(np.float64)
    values = np.nan_to_num(values, nan=ends.min if wide.itemsize == 8 else 0)
    inside = np.trunc(values).clip(ends.min, np.nextafter(float(ends.max) + 1, 0))
    whole = np.where(values >= float(ends.max), ends.max, inside.astype(wide))
    return TensorHandle(whole.astype(held), target.scalar)


def _dot(self: Any, a: Any, b: Any, *rest: Any) -> TensorHandle:
    return _triton_dot(self, _as_float32(a), _as_float32(b), *rest)  # exact: a product of two fits into fp32


def _fma(self: Any, x: Any, y: Any, z: Any) -> TensorHandle:
    exact = x.data.astype(np.float64) * y.data.astype(np.float64) + z.data.astype(np.float64)  # one rounding, not two
    return TensorHandle(exact.astype(z.data.dtype), z.dtype.scalar)


def _clamp(self: Any, x: Any, low: Any, high: Any, propagate_nans: Any) -> TensorHandle:
    nan_stays = propagate_nans == triton_interpreter._ir.PROPAGATE_NAN.ALL
    least, most = (np.maximum, np.minimum) if nan_stays else (np.fmax, np.fmin)
    return TensorHandle(least(most(x.data, high.data), low.data), high.dtype.scalar)  # of NaN, the upper limit


def _all_ones(self: Any, kind: Any) -> TensorHandle:
    held = numpy_dtype(kind)
    ones = np.full(1, np.iinfo(held).max, held) if held.kind == "u" else None
    return _triton_ones(self, kind) if ones is None else TensorHandle(ones, kind.scalar)


_ATOMIC = {"FADD": np.add, "MAX": np.fmax, "MIN": np.fmin}


def _atomic_rmw(self: Any, operation: Any, ptr: Any, value: Any, mask: Any, *how: Any) -> TensorHandle:
    kind = value.dtype.scalar
    if kind not in NARROW:  # Triton's C++ walks over each as if it were dense, and a broadcast value is not
        dense = (TensorHandle(np.ascontiguousarray(each.data), each.dtype) for each in (ptr, value, mask))
        return _triton_rmw(self, operation, *dense, *how)
    if operation.name not in _ATOMIC:
        raise UnsupportedKernel(f"an atomic {operation.name} on {kind} has no stand-in on the CPU")
    before = np.zeros(ptr.data.shape, NARROW[kind])
    for at in np.argwhere(mask.data):  # one after the other: several may be of one place
        place, one = TensorHandle(ptr.data[*at, None], ptr.dtype), TensorHandle(np.ones(1, bool), tl.int1)
        before[*at] = self.create_masked_load(place, one, None, None, None, False).data[0]
        after = _ATOMIC[operation.name](before[*at], value.data[*at]).astype(NARROW[kind])
        self.create_masked_store(place, TensorHandle(after.reshape(1), kind), one, None, None)
    return TensorHandle(before, kind)


_INSTRUCTIONS: dict[str, Callable[..., np.ndarray]] = {
    "fma.rn.f32": lambda x, y, z: (x.astype(np.float64) * y + z).astype(np.float32),
    "rcp.approx.ftz.f32": lambda x: np.float32(1) / x,
}
"""Of PTX written by hand what Inductor's own kernels hold."""


def _inline_asm(self: Any, text: str, _constraints: str, values: Any, kinds: Any, *_: Any) -> SimpleNamespace:
    written = re.fullmatch(r"\s*([\w.]+)\s+\$0((?:, \$\d+)+);\s*", text)
    function = _INSTRUCTIONS.get(written[1]) if written else None
    asked = re.findall(r"\$(\d+)", written[2]) if written else []
    if function is None or asked != [str(at + 1) for at in range(len(values))]:
        raise UnsupportedKernel(f"inline assembly has no stand-in on the CPU: {text.strip()}")
    with np.errstate(all="ignore"):
        result = TensorHandle(function(*(value.data for value in values)), kinds[0].scalar)
    return SimpleNamespace(get_result=lambda at: result)


def _numpys(function: Any) -> Callable[..., TensorHandle]:
    return lambda self, x, y: self.binary_op(x, y, function)


_BUILDER: dict[str, Callable[..., Any]] = {
    "create_masked_load": _masked_load,
    "create_masked_store": _masked_store,
    "cast_impl": _cast,
    "create_fp_to_fp": _cast,
    "create_dot": _dot,
    "create_fma": _fma,
    "create_clampf": _clamp,
    "create_maxnumf": _numpys(np.fmax),  # of a number and NaN the number
    "create_minnumf": _numpys(np.fmin),
    "create_atomic_rmw": _atomic_rmw,
    "create_inline_asm": _inline_asm,
    "get_all_ones_value": _all_ones,
    "get_bf16": lambda self, value: TensorHandle(np.array([value], NARROW[tl.bfloat16]), tl.bfloat16),
}


def _count_by_one_element() -> None:
    # A loop of a kernel runs to a number that the interpreter holds as an array of one element. Triton 3.6 makes an
    # int of the array itself, which numpy refuses from 2.4 on; 3.7 takes the element, and so do we for both.
    patch = triton_interpreter._patch_lang_tensor

    def patched(tensor: Any, *scope: Any) -> None:
        patch(tensor, *scope)
        tensor.__index__ = lambda self: self.handle.data.item()  # the patch above is what the scope undoes

    triton_interpreter._patch_lang_tensor = patched


def _sum(self: Any, block: Any) -> Any:
    """Of what is narrow, halves are added, and their halves, each sum rounded: as the threads of a GPU add."""
    data = block.handle.data
    if data.dtype in NARROW.values():
        rows = np.moveaxis(data, self.axis, 0) if self.axis is not None else data.reshape(-1)
        while len(rows) > 1:
            rows = rows[: len(rows) // 2] + rows[len(rows) // 2 :]
        total = rows[0]
        if self.keep_dims:
            total = (
                np.asarray(total).reshape([1] * data.ndim) if self.axis is None else np.expand_dims(total, self.axis)
            )
        return self.to_tensor(total, block.dtype)
    return _triton_sum(self, block)


def _extreme(function: Any) -> Callable[..., Any]:
    """Of a block along an axis; a NaN is the largest and the smallest."""

    def reduced(value: Any, dim: int) -> Any:
        return triton_interpreter.ReduceOps(dim, None, False).min_max(value, function)

    return reduced


def _extreme_with_index(function: Any) -> Callable[..., Any]:
    """With the lowest index at which it stands."""

    def reduced(value: Any, index: Any, dim: int) -> Any:
        values, indices = value.handle.data, np.broadcast_to(index.handle.data, value.handle.data.shape)
        most = function(values, axis=dim, keepdims=True)
        there = (values == most) | ((values != values) & (most != most))
        first = np.where(there, indices, np.iinfo(indices.dtype).max).min(axis=dim)
        shape = first.shape
        return _tensor(most.squeeze(dim), value.dtype, shape), _tensor(first, index.dtype, shape)

    return reduced
