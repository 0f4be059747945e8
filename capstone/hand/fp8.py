"""The same step with the blocks' matmuls in fp8: half the bytes of bf16, and twice the rate of the matrix unit.

A number of e4m3 has three bits after the point, one of e5m2 two, where bf16 has seven. Scaling brings a matrix into
the format's range and cannot give it more bits: rounding changes each number by up to 1/16 (e4m3) or 1/8 (e5m2). What
that does to gradients is to be measured, and which matmuls are worth it to be chosen: a linear has three, forward, its
input's gradient and its weight's, and each can stay in bf16. An error of the forward is seen by all gradients, one of
the backward by those below it, one of a weight's gradient by nobody else. The head, the embeddings, attention and all
between matmuls stay as they are.

Scales are per matrix and delayed (see `forms.DelayedScales`). Before the first step one pass in bf16 measures them.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import torch
from torch import Tensor

from mini_model.inputs import one_of, positive
from mini_model.model import MiniGPT

from .forms import E4M3, E5M2, LIMIT, PITCH, DelayedScales, Fp8Forms, ScaleSlot, WantedForms
from .matmuls import TunedMatmuls
from .step import HEAD, LINEARS, TABLE, HandStep, place_of, weight_of


class Fp8Step(HandStep):
    """A `HandStep` whose block linears multiply in fp8.

    forward, input_gradient, weight_gradient: of which linears these matmuls are in fp8: True for all in blocks, False
    for none, or some of LINEARS and HEAD. fast: which of the three may keep their sums, for some steps, in the matrix
    unit's narrower accumulator. gradients_in: the format of gradients, float8_e5m2 or float8_e4m3fn (logits' are always
    in the former); activations and weights are e4m3. headroom: how far above the last step's maximum a value may be
    before it is cut off. Other options as in `HandStep`; a weight that is read in fp8 is transposed anyhow, so none is
    turned. batch · length must be a multiple of 64. Hopper or newer on a GPU. ValueError, TypeError as in `HandStep`.

    One matmul's way, on any device. A matrix has a scale, by its maximum of the step before. What makes the matrix
    writes the forms that matmuls read. A matmul multiplies fp8 numbers, and takes both scales out of the result:

    >>> import torch
    >>> from capstone.hand import reference
    >>> from capstone.hand.forms import E4M3, LIMIT, DelayedScales, WantedForms
    >>> x, weight = torch.linspace(-2, 2, 64 * 128).view(64, 128), torch.linspace(-1, 3, 192 * 128).view(192, 128)
    >>> scales = DelayedScales([("operand", 1, LIMIT[E4M3]), ("weight", 1, LIMIT[E4M3])], headroom=1.0, device=x.device)
    >>> def step():
    ...     scales.renew()
    ...     a = reference.cast(x, scales["operand"], WantedForms(E4M3))
    ...     b = reference.cast(weight, scales["weight"], WantedForms(E4M3))
    ...     return reference.scaled_product(a.rows, scales["operand"], b.rows, scales["weight"], x.dtype, exact=True)
    >>> first, second = step(), step()  # the first's scales are guesses, and it sees the maxima
    >>> exact = x @ weight.T
    >>> round(float((second - exact).norm() / exact.norm()), 3)
    0.026
    """

    def __init__(
        self,
        model: MiniGPT,
        batch: int,
        length: int,
        *,
        forward: bool | Collection[str] = True,
        input_gradient: bool | Collection[str] = True,
        weight_gradient: bool | Collection[str] = True,
        fast: Collection[str] = ("forward",),
        gradients_in: torch.dtype = E5M2,
        headroom: float = 1.0,
        **options: Any,
    ) -> None:
        chosen = {"forward": forward, "input_gradient": input_gradient, "weight_gradient": weight_gradient}
        self.linears = {product: _linears(given) for product, given in chosen.items()}
        if gradients_in not in LIMIT:
            raise ValueError(f"gradients_in is {gradients_in}; it must be {E5M2} or {E4M3}")
        self.gradients_in = gradients_in
        self.fast = frozenset(one_of("product", each, self.linears) for each in fast)
        self._headroom = positive("headroom", headroom)
        self._measuring = False
        super().__init__(model, batch, length, **{"turned": (), **options})
        if wrong := self.epilogues - {"stream"}:
            raise ValueError(
                f"epilogues have {', '.join(sorted(wrong))}; of what GELU makes, fp8 matmuls read two forms"
            )
        by = self.matmuls if isinstance(self.matmuls, TunedMatmuls) else self.kernels
        self._scaled_product = by.scaled_product
        if self.dtype == torch.float64:
            raise ValueError("dtype is torch.float64; scales are float32, so an fp8 step is of bfloat16 or float32")
        if self.device.type == "cuda" and torch.cuda.get_device_capability(self.device) < (9, 0):
            raise ValueError(f"{torch.cuda.get_device_name(self.device)} has no fp8 matrix unit; use HandStep")
        self._make_scales()

    def _part_rows(self) -> tuple[int, int]:
        return self.kernels.NORM_PARTS, self.kernels.cast_parts(self.batch * self.length)

    def _make_scales(self) -> None:
        """A scale for each block's matrices: the linears' weights, what they are given, and what comes back."""
        limits = [
            (f"{kind} {linear}", self.config.layers, LIMIT[self.gradients_in if kind == "gradient" else E4M3])
            for kind in ("weight", "operand", "gradient")
            for linear in LINEARS
        ]
        limits += [(f"{kind} {HEAD}", 1, LIMIT[E4M3]) for kind in ("weight", "operand")]
        self.scales = DelayedScales(limits, self._headroom, self.device)
        self._weights: dict[str, Fp8Forms] = {}
        scale = torch.full((1, PITCH), LIMIT[E5M2] * self.targets.numel(), device=self.device)
        self._logits_slot = ScaleSlot(scale, 1 / scale, scale)  # a logit's gradient is at most 1 / rows

    def _state(self) -> dict[str, Tensor]:
        scales = {"scale": self.scales.scale, "inverse": self.scales.inverse, "peak": self.scales.peak}
        return super()._state() | scales

    def _slot(self, kind: str, linear: str) -> ScaleSlot:
        if (kind, linear) == ("gradient", HEAD):
            return self._logits_slot
        block, name = place_of(linear)
        return self.scales[f"{kind} {name}"][block]

    def _in_fp8(self, product: str, linear: str) -> bool:
        return place_of(linear)[1] in self.linears[product]

    def _wanted(self, kind: str, linear: str) -> WantedForms:
        """The forms that the matmuls of a linear read of its operand, its gradient or its weight."""
        forward, back, weight = (
            self._in_fp8(product, linear) for product in ("forward", "input_gradient", "weight_gradient")
        )
        if kind == "operand":
            return WantedForms(E4M3, forward, weight, self._measuring or not (forward and weight))
        if kind == "gradient":
            number = E5M2 if linear == HEAD else self.gradients_in  # most words' shares are far below the largest
            return WantedForms(number, back, weight, self._measuring or not (back and weight))
        return WantedForms(E4M3, forward, back)

    def _settle(self) -> None:
        """A pass in bf16 that sees every matrix's maximum: the first scales are of the data, and not guesses."""
        self._measuring = True
        self._forward_backward()
        self._measuring = False

    def _begin(self) -> None:
        self.scales.renew()
        for linear in LINEARS:
            wanted = self._wanted("weight", f"blocks.0.{linear}")
            if wanted.in_fp8:
                stack = self._stack(linear, self.regions[1].low)
                self._weights[linear] = self.kernels.cast(stack, self.scales[f"weight {linear}"], wanted)
        wanted = self._wanted("weight", HEAD)
        if wanted.in_fp8:
            table = self.low[TABLE][None]
            self._weights[HEAD] = self.kernels.cast(table, self.scales[f"weight {HEAD}"], wanted)

    # What makes an operand makes its forms; where no matmul is in fp8 it is the bf16 step's.

    def _norm(
        self, stream: Tensor, branch: Tensor | None, bias: Tensor | None, norm: str, to: str
    ) -> tuple[Tensor, Any, Tensor, Tensor]:
        wanted = self._wanted("operand", to)
        if not wanted.in_fp8:
            stream, normed, mean, rstd = super()._norm(stream, branch, bias, norm, to)
            return stream, _plain(normed), mean, rstd
        weight, shift = self.master[norm + ".weight"], self.master[norm + ".bias"]
        slot = self._slot("operand", to)
        return self.kernels.add_norm_cast(stream, branch, bias, weight, shift, self.norm_eps, slot, wanted)

    def _operand(self, x: Tensor, to: str) -> Fp8Forms:
        wanted = self._wanted("operand", to)
        return self.kernels.cast(x, self._slot("operand", to), wanted) if wanted.in_fp8 else _plain(x)

    def _gradient_operand(self, gradient: Tensor, of: str) -> Fp8Forms:
        wanted = self._wanted("gradient", of)
        return self.kernels.cast(gradient, self._slot("gradient", of), wanted) if wanted.in_fp8 else _plain(gradient)

    def _gelu(self, before: Tensor, up: str, to: str) -> Fp8Forms:
        wanted = self._wanted("operand", to)
        if not wanted.in_fp8:
            return _plain(super()._gelu(before, up, to))
        return self.kernels.gelu_cast(before, self.low[up + ".bias"], self._slot("operand", to), wanted)

    def _gelu_backward(self, gradient: Tensor, before: Tensor, up: str) -> Fp8Forms:
        wanted = self._wanted("gradient", up)
        if not wanted.in_fp8:
            return _plain(super()._gelu_backward(gradient, before, up))
        bias, parts, slot = self.low[up + ".bias"], self._bias_sums(up), self._slot("gradient", up)
        return self.kernels.gelu_backward_cast(gradient, before, bias, parts, slot, wanted)

    def _qkv_operand(self, gradient: Tensor, qkv: str) -> Fp8Forms:
        wanted = self._wanted("gradient", qkv)
        if not wanted.in_fp8:
            return _plain(super()._qkv_operand(gradient, qkv))
        return self.kernels.cast(gradient, self._slot("gradient", qkv), wanted, self._bias_sums(qkv))

    def _loss(self, logits: Tensor) -> tuple[Tensor, Fp8Forms]:
        wanted = self._wanted("gradient", HEAD)
        if self._measuring or not wanted.in_fp8:
            losses, gradient = super()._loss(logits)
            return losses, _plain(gradient)
        return self.kernels.cross_entropy_cast(logits, self.targets.view(-1), 1 / self.targets.numel(), wanted)

    # The matmuls

    def _product(self, operand: Fp8Forms, linear: str, bias: bool = False, added: Tensor | None = None) -> Tensor:
        if self._measuring or not self._in_fp8("forward", linear):
            return super()._product(operand.plain, linear, bias, added)
        own = self.low[linear + ".bias"] if bias else None
        return self._scaled("forward", operand.rows, "operand", self._weight(linear).rows, "weight", linear, own, added)

    def _input_gradient(self, gradient: Fp8Forms, linear: str) -> Tensor:
        if self._measuring or not self._in_fp8("input_gradient", linear):
            return super()._input_gradient(gradient.plain, linear)
        turned = self._weight(linear).turned
        return self._scaled("input_gradient", gradient.rows, "gradient", turned, "weight", linear)

    def _weight_gradient(self, gradient: Fp8Forms, operand: Fp8Forms, linear: str) -> None:
        if self._measuring or not self._in_fp8("weight_gradient", linear):
            return super()._weight_gradient(gradient.plain, operand.plain, linear)
        out = self.gradient[weight_of(linear)]
        self._scaled("weight_gradient", gradient.turned, "gradient", operand.turned, "operand", linear, out=out)

    def _scaled(
        self, product: str, a: Tensor | None, a_kind: str, b: Tensor | None, b_kind: str, linear: str,
        bias: Tensor | None = None, added: Tensor | None = None, out: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        assert a is not None and b is not None  # forms that this matmul reads, see `_wanted`
        slots = self._slot(a_kind, linear), self._slot(b_kind, linear)
        exact = product not in self.fast or (linear == HEAD and product != "forward")  # of tens of thousands of terms
        dtype = self.dtype if out is None else out.dtype
        return self._scaled_product(a, slots[0], b, slots[1], dtype, exact=exact, bias=bias, added=added, out=out)

    def _weight(self, linear: str) -> Fp8Forms:
        block, kind = place_of(linear)
        stack = self._weights[kind]
        rows, turned = (each if each is None else each[block] for each in (stack.rows, stack.turned))
        return Fp8Forms(rows, turned, None)


def _linears(given: bool | Collection[str]) -> frozenset[str]:
    if isinstance(given, bool):
        return frozenset(LINEARS if given else ())
    return frozenset(one_of("linear", each, (*LINEARS, HEAD)) for each in given)


def _plain(x: Tensor) -> Fp8Forms:
    return Fp8Forms(None, None, x)
