"""How far is a result from the one that counts as exact? One judge, which computes the difference in float64.

Three errors, which answer different questions. ``relative_error`` is one figure for a whole tensor: a single wrong
element among many hardly shows. ``largest_error`` is that of the worst element, in the tensor's own unit: for results
whose size is known, as a softmax's. ``largest_relative_error`` is the same in parts of the largest element, so that
tensors of any size can be held against one tolerance.
"""

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from ..doors import door


def relative_error(y: Tensor, exact: Tensor) -> float:
    """‖y − exact‖ / ‖exact‖ in the Euclidean norm; NaN or infinity if ``y`` is not finite."""
    exact = exact.double()
    return ((y.double() - exact).norm() / exact.norm()).item()


def relative_error_together(y: Mapping[str, Tensor], exact: Mapping[str, Tensor]) -> float:
    """The same of several tensors as if they were one: of ``y``'s, each against the exact one of its name."""
    pairs = [(found.double(), exact[name].double()) for name, found in y.items()]
    apart = sum(float((found - wanted).square().sum()) for found, wanted in pairs)
    return math.sqrt(apart / sum(float(wanted.square().sum()) for _, wanted in pairs))


def largest_error(y: Tensor, exact: Tensor) -> float:
    """max |y − exact|, in their own unit."""
    return (y.double() - exact.double()).abs().max().item()


def largest_relative_error(y: Tensor, exact: Tensor) -> float:
    """max |y − exact| / max |exact|, the largest of what is finite; the numerator alone where that is 0.

    0 of tensors without elements. An infinity or a NaN that both have is no difference; one that only one of them has
    is infinite.
    """
    if not exact.numel():
        return 0.0
    y, exact = (torch.view_as_real(each) if each.is_complex() else each for each in (y.detach(), exact.detach()))
    y, exact = y.double(), exact.double()
    same = (y == exact) | (y.isnan() & exact.isnan())
    apart = (y - exact).abs().nan_to_num(nan=torch.inf, posinf=torch.inf).masked_fill(same, 0).max()
    scale = exact.abs().masked_fill(~exact.isfinite(), 0).max()
    return float(apart / (scale if scale else 1))


@door
def gradient_error(gradients: Mapping[str, Tensor], exact: Mapping[str, Tensor]) -> float:
    """The largest difference of any gradient, in parts of the largest entry of the exact one of its name.

    >>> import torch
    >>> from compile_lab.measure.judge import gradient_error
    >>> gradient_error({"weight": torch.tensor([1.0, 3.0])}, {"weight": torch.tensor([1.0, 4.0])})
    0.25
    """
    return max(largest_relative_error(gradients[name], wanted) for name, wanted in exact.items())


def same_bits(x: Tensor, y: Tensor) -> bool:
    """True if two tensors of one shape and dtype hold the same bytes: a NaN is itself, and -0 is not 0."""
    return torch.equal(*(tensor.detach().contiguous().reshape(-1).view(torch.uint8) for tensor in (x, y)))
