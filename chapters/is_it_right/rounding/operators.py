"""Operators, eager and compiled, each against float64: which of the two is closer to the truth, and by how much?

The inputs are the largest of torch's own samples, rounded to the precision that is compared. The truth is the same call
in float64 on the same rounded inputs, so that an error is that of the operator alone.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from compile_lab._torch.opinfo import operators, samples_with_sides_of
from compile_lab.doors import door
from compile_lab.precision.formats import float32_products
from compile_lab.recordings import RecordedRow
from compile_lab.tensors import tensors

from .together import CompiledCall, JudgedCall, compiled_together

PRECISIONS = {"fp32": torch.float32, "tf32": torch.float32, "bf16": torch.bfloat16}
SIDE, SAMPLES, GROUP, SEED = 32, 40, 41, 0
CLOSE = 1.1
"""Two errors of which one is less than this times the other count as equally far from the truth."""

ELEMENTWISE = """
add sub mul div.no_rounding_mode reciprocal addcmul addcdiv lerp exp exp2 expm1 log log2 log10 log1p sqrt rsqrt
square pow float_power sin cos tan sinc asin acos atan atan2 sinh cosh tanh asinh acosh atanh hypot sigmoid logit
erf erfc erfinv lgamma digamma i0 special.i0e special.i1 special.i1e special.ndtr special.xlog1py xlogy logaddexp
logaddexp2 deg2rad rad2deg fmod remainder mvlgamma.mvlgamma_p_3 nn.functional.relu nn.functional.gelu
nn.functional.silu nn.functional.mish nn.functional.elu nn.functional.selu nn.functional.celu nn.functional.softplus
nn.functional.softsign nn.functional.tanhshrink nn.functional.logsigmoid nn.functional.hardswish
nn.functional.hardsigmoid nn.functional.leaky_relu nn.functional.glu nn.functional.mse_loss nn.functional.l1_loss
nn.functional.smooth_l1_loss nn.functional.huber_loss nn.functional.kl_div nn.functional.binary_cross_entropy
nn.functional.binary_cross_entropy_with_logits nn.functional.poisson_nll_loss nn.functional.soft_margin_loss
"""
REDUCTIONS = """
sum mean prod nansum nanmean var var_mean std std_mean amax norm linalg.vector_norm logsumexp softmax log_softmax
nn.functional.softmin cumsum cumprod trapezoid nn.functional.layer_norm nn.functional.rms_norm
nn.functional.group_norm nn.functional.instance_norm nn.functional.batch_norm nn.functional.local_response_norm
nn.functional.normalize nn.functional.cosine_similarity nn.functional.pairwise_distance nn.functional.cross_entropy
nn.functional.nll_loss nn.functional.triplet_margin_loss nn.functional.avg_pool2d nn.functional.adaptive_avg_pool2d
nn.functional.interpolate.bilinear nn.functional.interpolate.bicubic nn.functional.grid_sample index_add cross outer
addr kron renorm
"""
PRODUCTS = """
mm bmm matmul addmm addbmm baddbmm mv addmv dot inner einsum tensordot linalg.multi_dot linalg.vecdot
nn.functional.linear nn.functional.bilinear nn.functional.conv1d nn.functional.conv2d nn.functional.conv_transpose2d
nn.functional.embedding_bag logcumsumexp
"""
OPERATORS = tuple(f"{ELEMENTWISE} {REDUCTIONS} {PRODUCTS}".split())
"""Names in torch's table of operators that compute: what only moves numbers has no error."""


class ErrorRow(RecordedRow):
    """A row of a recording whose errors are kept to five digits."""

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values, errors to five digits."""
        return {name: five(value) for name, value in super().to_json().items()}


@door
@dataclass(frozen=True)
class OperatorError(ErrorRow):
    """One operator in one precision. Errors are ‖y − exact‖ / ‖exact‖ over all floating results together.

    ``rounding`` is the least there can be: the exact result, rounded to the precision. ``equal``: compiled is bitwise
    what eager is. ``written``: Inductor wrote a kernel for it; ``called``: it calls a library or a kernel of torch's.
    ``stopped`` says why there is no error; then the errors are None.

    >>> from chapters.is_it_right.rounding.operators import OperatorError
    >>> OperatorError("mm", "bf16", 1024, eager=1.7e-3, compiled=1.7e-3, rounding=1.6e-3, equal=True).verdict
    'bitwise equal'
    >>> OperatorError("softmax", "bf16", 1024, eager=3.1e-3, compiled=1.6e-3, rounding=1.6e-3).verdict
    'compiled closer'
    """

    operator: str
    precision: str
    elements: int = 0
    eager: float | None = None
    compiled: float | None = None
    rounding: float | None = None
    equal: bool = False
    written: bool = False
    called: bool = False
    stopped: str = ""

    @property
    def verdict(self) -> str:
        """ "bitwise equal", "as close", "compiled closer", "eager closer", or "not compared"."""
        if self.stopped or self.eager is None or self.compiled is None:
            return "not compared"
        if self.equal:
            return "bitwise equal"
        if self.compiled * CLOSE < self.eager:
            return "compiled closer"
        return "eager closer" if self.eager * CLOSE < self.compiled else "as close"


VERDICTS = ("bitwise equal", "as close", "compiled closer", "eager closer")


def five(value: Any) -> Any:
    """A number to five digits, for a recording."""
    return float(f"{value:.5g}") if isinstance(value, float) else value


@door
def judged(names: Sequence[str] = OPERATORS, precision: str = "fp32", device: str = "cpu") -> list[OperatorError]:
    """Each operator of those names, eager and compiled, against float64. tf32: those alone whose eager result it moves.

    Operators are compiled in groups, each on inputs of its own. A group of 40 takes about 10 CPU seconds. Raises
    ValueError for a name that torch's table lacks, for another precision, and for tf32 on a CPU, which has none.

    >>> from chapters.is_it_right.rounding.operators import judged
    >>> judged(["mm"], precision="tf32")
    Traceback (most recent call last):
        ...
    ValueError: precision='tf32' is a GPU's way to multiply fp32; on a CPU take 'fp32' or 'bf16'
    """
    if precision not in PRECISIONS:
        raise ValueError(f"precision={precision!r} is not known; it is one of {', '.join(map(repr, PRECISIONS))}")
    if precision == "tf32" and not device.startswith("cuda"):
        raise ValueError("precision='tf32' is a GPU's way to multiply fp32; on a CPU take 'fp32' or 'bf16'")
    if unknown := [name for name in names if name not in operators()]:
        raise ValueError(f"torch's table has no operator {', '.join(map(repr, unknown))}: take names of OPERATORS")
    found = []
    for start in range(0, len(names), GROUP):
        found += _group(names[start : start + GROUP], precision, device)
    return found


def _group(names: Sequence[str], precision: str, device: str) -> list[OperatorError]:
    stopped: list[OperatorError] = []
    compared: list[tuple[JudgedCall, list[Tensor], list[Tensor]]] = []
    for name in names:
        try:
            call = _call(name, PRECISIONS[precision], device)
            with torch.no_grad(), float32_multiplied_in("fp32"):
                truth = _results(_doubled(call)())
                plain = _results(call())
            with torch.no_grad(), float32_multiplied_in(precision):
                found = _results(call())
        except (RuntimeError, ValueError, TypeError) as reason:  # an operator that this device has not in this dtype
            stopped.append(OperatorError(name, precision, stopped=str(reason).strip().partition("\n")[0][:200]))
            continue
        if precision == "tf32" and _same(plain, found):
            continue
        compared.append((call, truth, found))
    with float32_multiplied_in(precision):
        compiled = compiled_together([call for call, *_ in compared])
    rows = [_judged(precision, *each, result) for each, result in zip(compared, compiled, strict=True)]
    return [*rows, *stopped]


def _judged(
    precision: str, call: JudgedCall, exact: list[Tensor], eager: list[Tensor], compiled: CompiledCall
) -> OperatorError:
    if compiled.stopped:
        return OperatorError(call.name, precision, stopped=compiled.stopped)
    found = _results(compiled.result)
    dtype = PRECISIONS[precision]
    kept = [
        truth.isfinite() & one.isfinite() & truth.to(dtype).isfinite() for truth, one in zip(exact, eager, strict=True)
    ]
    errors = [_error(each, exact, kept) for each in (eager, found, [truth.to(dtype) for truth in exact])]
    elements = sum(int(mask.sum()) for mask in kept)
    if not elements or not all(map(math.isfinite, errors)):
        return OperatorError(call.name, precision, elements, stopped=f"no finite error: eager, compiled {errors[:2]}")
    by_eager, by_compiled, least = errors
    equal, written, called = _same(eager, found), compiled.written, compiled.called
    return OperatorError(call.name, precision, elements, by_eager, by_compiled, least, equal, written, called)


def _error(found: list[Tensor], exact: list[Tensor], kept: list[Tensor]) -> float:
    """Over the elements that are numbers, of all results as if they were one; of an exact zero, the size itself."""
    pairs = [(y.double()[mask], truth[mask]) for y, truth, mask in zip(found, exact, kept, strict=True)]
    apart = sum(float((y - truth).square().sum()) for y, truth in pairs)
    size = sum(float(truth.square().sum()) for _, truth in pairs)
    return math.sqrt(apart / size) if size else math.sqrt(apart)


def _same(first: list[Tensor], second: list[Tensor]) -> bool:
    return all(torch.equal(a.nan_to_num(0), b.nan_to_num(0)) and torch.equal(a.isnan(), b.isnan())
               for a, b in zip(first, second, strict=True))  # fmt: skip


def _results(value: Any) -> list[Tensor]:
    return [tensor.detach().clone() for tensor in tensors(value) if tensor.is_floating_point()]


def _doubled(call: JudgedCall) -> JudgedCall:
    return JudgedCall(call.name, call.fn, _in(torch.float64, call.args), _in(torch.float64, call.kwargs))


def _in(dtype: torch.dtype, value: Any, device: str | None = None) -> Any:
    def moved(leaf: Any) -> Any:
        if not isinstance(leaf, Tensor):
            return leaf
        leaf = leaf.detach().to(device or leaf.device)
        return leaf.to(dtype) if leaf.is_floating_point() else leaf

    return tree_map(moved, value)


def _call(name: str, dtype: torch.dtype, device: str) -> JudgedCall:
    fn, args, kwargs = _sample(name)
    return JudgedCall(name, fn, _in(dtype, args, device), _in(dtype, kwargs, device))


@functools.cache
def _sample(name: str) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
    """torch's sample with the most results, then the most inputs, whose results are all finite; fp32, on the CPU."""
    info, best, chosen = operators()[name], [0, 0], None
    torch.manual_seed(SEED)
    with samples_with_sides_of(SIDE), torch.no_grad():
        for sample in itertools.islice(info.sample_inputs("cpu", torch.float32), SAMPLES):
            args = (sample.input, *sample.args)
            results = _results(info.op(*args, **sample.kwargs))
            sizes = [sum(each.numel() for each in many) for many in (results, tensors((args, sample.kwargs)))]
            if results and all(bool(each.isfinite().all()) for each in results) and sizes > best:
                best, chosen = sizes, (info.op, args, sample.kwargs)
    if chosen is None:
        raise ValueError(f"{name}: none of torch's first {SAMPLES} samples has finite floating results")
    return chosen


@contextlib.contextmanager
def float32_multiplied_in(precision: str) -> Iterator[None]:
    """While the block runs, matmuls and convolutions of fp32 on a GPU take TF32's short factors, or never do."""
    cudnn, short = torch.backends.cudnn, precision == "tf32"
    as_they_are = {name: getattr(cudnn, name) for name in ("enabled", "benchmark", "deterministic")}
    with float32_products("high" if short else "highest"), cudnn.flags(**as_they_are, allow_tf32=short):
        yield
