"""The matmuls of a schedule: torch's, or cuBLASLt's with what torch does not hand on.

torch asks cuBLAS for a matmul, and a heuristic chooses among its kernels. cuBLASLt's own interface gives two things
more. It lists the kernels that can do a matmul: the first call of a shape tries them, and keeps the fastest. And what
follows can be done before the result is stored, in the kernel's epilogue: GELU or its gradient, the sum of a bias's
gradient, the sum with the residual stream. Each spares a pass over the result.

Which kernel was the fastest may differ from process to process, and with it the last bits of a result.
"""

from __future__ import annotations

import ctypes
import functools
import math
import statistics
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from . import reference
from .forms import E4M3, E5M2, ScaleSlot


class Matmuls:
    """torch's own, on any device and in any dtype."""

    def product(
        self, a: Tensor, b: Tensor, bias: Tensor | None = None, added: Tensor | None = None, out: Tensor | None = None
    ) -> Tensor:
        """a @ b + bias + added, [rows, columns] of a's dtype, or of out's; bias: [columns]."""
        if out is not None:
            return _product_in_sums(a, b, out)
        made = torch.mm(a, b) if bias is None else torch.addmm(bias, a, b)
        return made if added is None else made + added

    def gelu(self, x: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        """(x @ weight + bias, its GELU)."""
        before = self.product(x, weight, bias)
        return before, reference.gelu(before, torch.zeros_like(bias))

    def gelu_backward(self, gradient: Tensor, weight: Tensor, before: Tensor, sums: Tensor) -> Tensor:
        """The gradient of `before`, where gradient @ weight is that of its GELU; its columns' sums become `sums`."""
        after = self.product(gradient, weight)
        return reference.gelu_backward(after, before, torch.zeros_like(before[0]), sums[None])


def _product_in_sums(a: Tensor, b: Tensor, out: Tensor) -> Tensor:
    """out = a @ b, in out's dtype: 16-bit operands are not rounded once more."""
    if a.dtype == out.dtype:
        return torch.mm(a, b, out=out)
    if a.is_cuda:
        return torch.mm(a, b, out_dtype=out.dtype, out=out)
    return torch.mm(a.to(out.dtype), b.to(out.dtype), out=out)


BIAS, GELU, GELU_BACKWARD = 4, 32 | 128 | 4, 64 | 128 | 16
"""Epilogues: a bias; a bias, its sum kept, and GELU; GELU's gradient, and the sum of the bias's."""
TYPES = {torch.float32: 0, torch.bfloat16: 14, E4M3: 28, E5M2: 29}
IN_FLOAT32, TRANSPOSED = 68, 1
TRANSA, TRANSB, EPILOGUE, BIAS_AT, AUX_AT, AUX_ROW, A_SCALE, B_SCALE, FAST = 3, 4, 7, 8, 11, 12, 17, 18, 25
"""Numbers of cublasLt.h."""
WORKSPACE = 64 << 20
TRIED, NEAR, ROUNDS, VISIT_MS, RUNS = 12, 1.12, 2, 100.0, 500
"""Kernels that are tried, the first that the heuristic names. Those that come so near the fastest of a first look have
so many turns of so many milliseconds, or runs: at the power cap a kernel that needs less energy has a higher clock, and
that takes a while to show."""


class TunedMatmuls(Matmuls):
    """cuBLASLt's kernels, for bf16 and fp8 on one GPU. RuntimeError where it has none for a matmul."""

    def __init__(self, device: torch.device) -> None:
        self._call = _Library()
        self._handle = ctypes.c_void_p()
        with torch.cuda.device(device):
            self._call("Create", ctypes.byref(self._handle))
        self._room = torch.empty(WORKSPACE, dtype=torch.uint8, device=device)
        self.plans: dict[Any, _Plan] = {}

    @staticmethod
    @functools.cache
    def of(device: torch.device) -> TunedMatmuls:
        """One for all steps: what one has tried, the next need not."""
        return TunedMatmuls(device)

    def product(
        self, a: Tensor, b: Tensor, bias: Tensor | None = None, added: Tensor | None = None, out: Tensor | None = None
    ) -> Tensor:
        out = a.new_empty(len(a), b.shape[1]) if out is None else out
        return self._run(a, b, out, epilogue=1 if bias is None else BIAS, bias=bias, added=added)

    def gelu(self, x: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        before, after = (x.new_empty(len(x), weight.shape[1]) for _ in range(2))
        return before, self._run(x, weight, after, epilogue=GELU, bias=bias, aux=before)

    def gelu_backward(self, gradient: Tensor, weight: Tensor, before: Tensor, sums: Tensor) -> Tensor:
        out, columns = torch.empty_like(before), before.new_empty(before.shape[1])
        self._run(gradient, weight, out, epilogue=GELU_BACKWARD, bias=columns, aux=before)
        sums.copy_(columns)
        return out

    def scaled_product(
        self, a: Tensor, a_slot: ScaleSlot, b: Tensor, b_slot: ScaleSlot, dtype: torch.dtype,
        *, exact: bool, bias: Tensor | None = None, added: Tensor | None = None, out: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        """As `kernels.scaled_product`, plus `added`."""
        out = a.new_empty(len(a), len(b), dtype=dtype) if out is None else out
        scales = a_slot.inverse, b_slot.inverse
        return self._run(
            a, b.t(), out, epilogue=1 if bias is None else BIAS, bias=bias, added=added, scales=scales, fast=not exact
        )

    def _run(
        self, a: Tensor, b: Tensor, out: Tensor, *, epilogue: int, bias: Tensor | None = None,
        aux: Tensor | None = None, added: Tensor | None = None, scales: tuple[Tensor, Tensor] | None = None,
        fast: bool = False,
    ) -> Tensor:  # fmt: skip
        """cuBLAS reads memory by columns: out's transpose is b's times a's, and so its A is our b."""
        given = a, b, out, added
        key = (epilogue, fast, *((x.shape, x.stride(), x.dtype) if x is not None else None for x in given))
        plan = self.plans.get(key)
        if plan is None:
            plan = self.plans[key] = self._planned(a, b, out, added, epilogue, fast, aux)
        places = {BIAS_AT: bias, AUX_AT: aux}
        if scales is not None:
            places |= {A_SCALE: scales[1], B_SCALE: scales[0]}
        for attribute, tensor in places.items():
            if tensor is not None:
                self._set(plan.matmul, attribute, ctypes.c_void_p(tensor.data_ptr()))
        if not plan.kernels:
            plan.kernels = self._kernels(plan)
        if len(plan.kernels) > 1:
            plan.kernels = [self._fastest(plan, a, b, out, added)]
        self._launch(plan, plan.kernels[0], a, b, out, added)
        return out

    def _planned(
        self, a: Tensor, b: Tensor, out: Tensor, added: Tensor | None, epilogue: int, fast: bool, aux: Tensor | None
    ) -> _Plan:
        matmul = self._made("MatmulDescCreate", IN_FLOAT32, TYPES[torch.float32])
        sides = [_Matrix.of(each) for each in (b, a, out if added is None else added, out)]
        for attribute, side in ((TRANSA, sides[0]), (TRANSB, sides[1])):
            self._set(matmul, attribute, ctypes.c_int32(TRANSPOSED if side.transposed else 0))
        self._set(matmul, EPILOGUE, ctypes.c_uint32(epilogue))
        if aux is not None:
            self._set(matmul, AUX_ROW, ctypes.c_int64(aux.stride(0)))
        if fast:
            self._set(matmul, FAST, ctypes.c_int8(1))
        layouts = [
            self._made(
                "MatrixLayoutCreate", side.type, ctypes.c_uint64(side.height), ctypes.c_uint64(side.width),
                ctypes.c_int64(side.row),
            )
            for side in sides
        ]  # fmt: skip
        name = (
            f"{len(a)} x {a.shape[1]} x {b.shape[1]}, {a.dtype}, epilogue {epilogue}{', added' * (added is not None)}"
        )
        return _Plan(name, matmul, layouts, 0.0 if added is None else 1.0, [])

    def _kernels(self, plan: _Plan) -> list[_Kernel]:
        """Those that the heuristic names, its favourite first."""
        preference = self._made("MatmulPreferenceCreate")
        room = ctypes.c_uint64(WORKSPACE)
        self._call("MatmulPreferenceSetAttribute", preference, 1, ctypes.byref(room), ctypes.c_size_t(8))
        found, count = (_Kernel * TRIED)(), ctypes.c_int()
        self._call(
            "MatmulAlgoGetHeuristic", self._handle, plan.matmul, *plan.layouts, preference, TRIED, found,
            ctypes.byref(count),
        )  # fmt: skip
        if not count.value:
            raise RuntimeError("cuBLASLt has no kernel for a matmul of these shapes with this epilogue")
        return list(found[: count.value])

    def _fastest(self, plan: _Plan, *tensors: Any) -> _Kernel:
        """The one with the least mean time."""
        first = [self._ms(plan, kernel, 4, *tensors) for kernel in plan.kernels]
        near = [at for at, ms in enumerate(first) if ms < NEAR * min(first)]
        turns = [at for _ in range(ROUNDS) for at in near]
        runs = min(RUNS, math.ceil(VISIT_MS / min(first)))
        long = [(at, self._ms(plan, plan.kernels[at], runs, *tensors)) for at in turns]
        means = {at: statistics.fmean(ms for other, ms in long if other == at) for at in near}
        plan.tried_ms = [means.get(at, ms) for at, ms in enumerate(first)]
        return plan.kernels[min(means, key=means.__getitem__)]

    def _ms(self, plan: _Plan, kernel: _Kernel, runs: int, *tensors: Any) -> float:
        """Milliseconds of a run, the mean of so many after one."""
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        self._launch(plan, kernel, *tensors)
        begin.record()
        for _ in range(runs):
            self._launch(plan, kernel, *tensors)
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / runs

    def _launch(self, plan: _Plan, kernel: _Kernel, a: Tensor, b: Tensor, out: Tensor, added: Tensor | None) -> None:
        one, beta = ctypes.c_float(1.0), ctypes.c_float(plan.beta)
        at = [ctypes.c_void_p(each.data_ptr()) for each in (b, a, out if added is None else added, out)]
        stream = torch.cuda.current_stream(out.device).cuda_stream
        first, second, third, last = plan.layouts
        self._call(
            "Matmul", self._handle, plan.matmul, ctypes.byref(one), at[0], first, at[1], second, ctypes.byref(beta),
            at[2], third, at[3], last, ctypes.byref(kernel), ctypes.c_void_p(self._room.data_ptr()),
            ctypes.c_size_t(WORKSPACE), ctypes.c_void_p(stream),
        )  # fmt: skip

    def _made(self, function: str, *arguments: Any) -> ctypes.c_void_p:
        made = ctypes.c_void_p()
        self._call(function, ctypes.byref(made), *arguments)
        return made

    def _set(self, matmul: ctypes.c_void_p, attribute: int, value: Any) -> None:
        size = ctypes.c_size_t(ctypes.sizeof(value))
        self._call("MatmulDescSetAttribute", matmul, attribute, ctypes.byref(value), size)


class _Library:
    """cuBLASLt as torch has loaded it."""

    def __init__(self) -> None:
        major = (torch.version.cuda or "13").split(".")[0]
        self.library = ctypes.CDLL(f"libcublasLt.so.{major}")

    def __call__(self, function: str, *arguments: Any) -> None:
        """RuntimeError for a status that is not success."""
        status = getattr(self.library, f"cublasLt{function}")(*arguments)
        if status:
            raise RuntimeError(f"cublasLt{function} gives status {status}")


class _Kernel(ctypes.Structure):
    """A kernel that can do a matmul, as the heuristic tells of it; its first field is what a launch is given."""

    _fields_ = (
        ("algorithm", ctypes.c_uint64 * 8),
        ("workspace", ctypes.c_size_t),
        ("state", ctypes.c_int),
        ("waves", ctypes.c_float),
        ("reserved", ctypes.c_int * 4),
    )


@dataclass
class _Plan:
    """A matmul's description, its four matrices, how much of the third is added, and the kernels that can do it."""

    name: str
    matmul: ctypes.c_void_p
    layouts: list[ctypes.c_void_p]
    beta: float
    kernels: list[_Kernel]
    tried_ms: list[float] | None = None


@dataclass(frozen=True)
class _Matrix:
    """A matrix's transpose as its memory lies, by columns; transposed: that is the matrix itself."""

    type: int
    transposed: bool
    height: int
    width: int
    row: int

    @classmethod
    def of(cls, x: Tensor) -> _Matrix:
        rows, columns = x.shape
        if x.stride(1) == 1:
            return cls(TYPES[x.dtype], False, columns, rows, x.stride(0))
        if x.stride(0) == 1:
            return cls(TYPES[x.dtype], True, rows, columns, x.stride(1))
        raise ValueError(f"a matrix with strides {x.stride()} has neither rows nor columns in one piece")
