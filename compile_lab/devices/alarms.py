"""When do two results differ, and when does a difference say nothing? Each rule has a name, and a test.

A wrong verdict would be worse than none. So before a result of several ranks is called wrong, these rules are asked in
turn, each with what one process computes: `excuse` gives the name of the first that speaks, or "".
"""

import re
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from ..tensors import tensors

TOLERANCES = {torch.float64: 1e-7, torch.complex128: 1e-7, torch.float32: 1e-4, torch.complex64: 1e-4}
"""Of the largest value: what another order of adding up may change. Lower precisions get `COARSE`."""
COARSE = 2e-2
NUDGE = 1e-7
"""Of the largest input: how far a point is moved to see whether the gradient jumps there."""
JUMP = 1e-3
NOT_UNIQUE = re.compile(r"svd|eig|qr|pca|lstsq|lu_factor|householder|geqrf|ldl")
"""Factorisations: signs, phases and orders are free, and both answers are right."""
GIVES_POSITIONS = re.compile(r"arg|sort|topk|max|min|median|mode|kthvalue|unique|search|nonzero")


def difference(got: Any, want: Any) -> str:
    """How ``got`` differs from ``want``, in words; "" where it does not, beyond the tolerance of its type.

    Two NaN are equal. The error is told relative to the largest value that is wanted.
    """
    if not isinstance(want, Tensor) or not isinstance(got, Tensor):
        same = type(got) is type(want) and (got == want or (got != got and want != want))
        return "" if same else f"{str(got)[:60]} for {str(want)[:60]}"
    if got.shape != want.shape:
        return f"shape {tuple(got.shape)} for {tuple(want.shape)}"
    if got.dtype != want.dtype:
        return f"{got.dtype} for {want.dtype}"
    if not want.is_floating_point() and not want.is_complex():
        wrong = int((got != want).sum())
        return f"{wrong} of {want.numel()} elements differ" if wrong else ""
    finite = want.isfinite()
    if not torch.equal(got.isnan(), want.isnan()):
        return f"NaN in {int(got.isnan().sum())} of {want.numel()} elements, for {int(want.isnan().sum())}"
    if not torch.equal(got.isfinite(), finite) or not torch.equal(
        got[~finite & ~got.isnan()], want[~finite & ~want.isnan()]
    ):
        return "infinite where it should not be, or not where it should"
    error = _largest(got[finite] - want[finite])
    scale = _largest(want[finite])
    if error <= TOLERANCES.get(want.dtype, COARSE) * (1 + scale):
        return ""
    return f"off by {error / scale:.2g} of the largest value" if scale else f"off by {error:.2g}, for zeros"


def differs(got: Any, want: Any) -> str:
    """The first `difference` among the values of two nested results; "" if there is none."""
    left, right = tree_leaves(got), tree_leaves(want)
    if len(left) != len(right):
        return f"{len(left)} results for {len(right)}"
    return next((told for told in map(difference, left, right) if told), "")


def excuse(
    ask: Callable[[Sequence[Tensor]], Any],
    inputs: Sequence[Tensor],
    wrong: Tensor,
    operator: str = "",
    held: Sequence[Sequence[Tensor]] = (),
) -> str:
    """The name of the rule by which a difference in the result ``wrong`` says nothing; "" if none does.

    ``ask(inputs)`` is what one process computes; ``wrong`` is that one of its results which the ranks disagree with.
    ``held`` has the ranks' parts of each input.
    """
    if is_undefined(ask, inputs):
        return "undefined"
    taken = [*inputs, *(part for each in held for part in each)]
    if wrong.dtype is torch.uint8 and any(_is_float(x) and bool((x < 0).any()) for x in taken):
        return "unsigned"
    if wrong.dtype is torch.int64 and (not operator or GIVES_POSITIONS.search(operator)):
        ranked = [x for x in inputs if _is_float(x)] or inputs[:1]
        if any(map(_has_ties, ranked)):
            return "ties"
    if NOT_UNIQUE.search(operator):
        return "not unique"
    return ""


def is_undefined(ask: Callable[[Sequence[Tensor]], Any], inputs: Sequence[Tensor]) -> bool:
    """Does one process give two results? Asked with two seeds, and with unwritten memory filled the second time.

    torch's samples of a random operator set the seed themselves; the second time they get another one.
    """
    was, warns = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    plain = torch.manual_seed
    with torch.random.fork_rng(devices=[]):
        try:
            torch.manual_seed(1)
            first = ask([x.clone() for x in inputs])
            torch.manual_seed(2)
            torch.manual_seed = lambda seed: plain(seed + 1)
            torch.use_deterministic_algorithms(True, warn_only=True)
            return bool(differs(first, ask([x.clone() for x in inputs])))
        except Exception:
            return False  # it is asked about a call that ran: what fails here is the asking
        finally:
            torch.manual_seed = plain
            torch.use_deterministic_algorithms(was, warn_only=warns)


def is_outside(
    ask: Callable[[Sequence[Tensor]], Any], inputs: Sequence[Tensor], held: Sequence[Sequence[Tensor]]
) -> bool:
    """Is the function finite of the inputs, and not of the parts that stand for one of them?"""
    if not _is_finite(ask([x.clone() for x in inputs])):
        return False
    for index, each in enumerate(held):
        for part in each:
            if part.shape == inputs[index].shape and not torch.equal(part, inputs[index]):
                try:
                    finite = _is_finite(ask([part if at == index else x.clone() for at, x in enumerate(inputs)]))
                except Exception:
                    finite = False
                if not finite:
                    return True
    return False


def _is_finite(value: Any) -> bool:
    return all(bool(each.isfinite().all()) for each in tensors(value))


def is_kink(gradient: Callable[[Sequence[Tensor]], Any], inputs: Sequence[Tensor]) -> bool:
    """Does one process's own gradient jump if each input moves a little, to either side?"""
    here = gradient(inputs)
    for side in (1, -1):
        moved = [x + side * NUDGE * (1 + _largest(x)) * _signs(x) if _is_float(x) else x for x in inputs]
        for got, want in zip(tensors(gradient(moved)), tensors(here), strict=False):
            if got.shape != want.shape or not torch.equal(got.isfinite(), want.isfinite()):
                return True
            finite = want.isfinite()
            if _largest(got[finite] - want[finite]) > JUMP * (1 + _largest(want[finite])):
                return True
    return False


def _signs(x: Tensor) -> Tensor:
    """±1, so that neighbours move apart."""
    return (1.0 - 2.0 * (torch.arange(x.numel()) % 2)).reshape(x.shape).to(x.dtype)


def _has_ties(x: Tensor) -> bool:
    return not x.is_complex() and x.unique().numel() < x.numel()


def _is_float(x: Tensor) -> bool:
    return x.is_floating_point()


def _largest(x: Tensor) -> float:
    finite = x[x.isfinite()]
    return float(finite.abs().max()) if finite.numel() else 0.0
