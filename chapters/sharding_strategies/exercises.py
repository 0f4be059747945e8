"""Exercises of chapter 14, sharding strategies."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from compile_lab.devices import ranks
from compile_lab.devices.dtensor import FREE, HANGS, PAID, REFUSED, WRONG, DTensorCall, Ruling
from compile_lab.tensors import tensors

from ..exercises.judging import exercise
from .candidates import candidates
from .queries import rulings, with_rule

MOST_SENT_NBYTES = 64
"""For a loss: a few numbers may be sent, and no tensor."""


def _numbers(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


@exercise("14.2")
def silent_layout(answer: Sequence[str]) -> str | None:
    """Placements of x, a and b for which gelu(x @ a) @ b sends nothing on four devices, and a and b are sharded."""
    if isinstance(answer, str) or not isinstance(answer, Sequence) or len(answer) != 3:
        return 'this asks for three placements, of x, a and b, as ("R", "R", "R").'
    if whole := [name for name, word in zip("ab", answer[1:], strict=True) if not word.startswith("S(")]:
        return f"{' and '.join(whole)} is not sharded: each device would hold all of it."
    args = _numbers(8, 16), _numbers(16, 32), _numbers(32, 16)
    found = candidates(lambda x, a, b: F.gelu(x @ a) @ b, args, tuple(answer), devices=4)
    if found.sent:
        return f"a device sends {'; '.join(map(str, found.sent))}."
    return None


@exercise("14.3", takes=Callable)
def loss_with_its_gradient(answer: Callable[[Tensor, Tensor], Tensor]) -> str | None:
    """loss(a, b): the mean of squared differences, right in value and gradient on shards, and no tensor sent."""
    a, b = _numbers(8, 4), _numbers(8, 4).flip(0)
    if not torch.allclose(answer(a, b), F.mse_loss(a, b)):
        return "in one process it is another loss than F.mse_loss."
    layouts = ("S(0)", "S(0)"), ("S(1)", "S(1)")
    asked = [DTensorCall(answer, (a, b), layout, gradient=g) for layout in layouts for g in (False, True)]
    for call, ruling in zip(asked, rulings(asked), strict=True):
        what = "gradient" if call.gradient else "value"
        if ruling.kind not in (FREE, PAID):
            return f"its {what} on {call.layout[0]} is {ruling.kind}: {ruling.detail}."
        if ruling.sent_nbytes > MOST_SENT_NBYTES:
            return f"its {what} on {call.layout[0]} is right, and a rank sends {ruling.sent_nbytes} bytes for it."
    return None


@exercise("14.4")
def own_rule(answer: Mapping[str, Any]) -> str | None:
    """A rule for an operator that has none: no layout wrong, and one that was refused is now right and free."""
    wanted: dict[str, Any] = {"operator": str, "rule": Callable, "call": Callable, "args": tuple}
    if not isinstance(answer, Mapping) or set(answer) != set(wanted):
        return f"this asks for a dict of {', '.join(wanted)}."
    if odd := [name for name, kind in wanted.items() if not isinstance(answer[name], kind)]:
        return f"{odd[0]} is of type {type(answer[odd[0]]).__name__}."
    calls = every_layout(answer["call"], answer["args"])
    try:
        before = rulings(calls)
        after = rulings(calls, before=with_rule(answer["operator"], answer["rule"]))
    except ranks.RankFailed as failed:
        return f"the rule could not be registered: {str(failed).strip().splitlines()[-1]}"
    return _judged(calls, before, after)


def every_layout(function: Callable[..., Any], args: Sequence[Any]) -> list[DTensorCall]:
    """Each tensor in turn in every placement that it can have on two even shards, the others replicated."""
    held = tensors(tuple(args))
    layouts: list[tuple[str, ...]] = []
    for at, x in enumerate(held):
        words = [f"S({dim})" for dim in range(x.ndim) if x.shape[dim] % 2 == 0]
        words += ["P(sum)", "P(max)"] if x.is_floating_point() else []
        layouts += [tuple(word if i == at else "R" for i in range(len(held))) for word in words]
    return [DTensorCall(function, tuple(args), layout) for layout in layouts]


def _judged(calls: Sequence[DTensorCall], before: Sequence[Ruling], after: Sequence[Ruling]) -> str | None:
    if not any(one.kind == REFUSED for one in before):
        return "without the rule no layout is refused: torch has one already. Choose another operator."
    for call, one in zip(calls, after, strict=True):
        if one.kind in (WRONG, HANGS):
            return f"with {', '.join(call.layout)} the result is {one.kind}, and no error says so: {one.detail}."
        if one.kind == REFUSED:
            return f"{', '.join(call.layout)} is still refused: {one.detail}"
    shards = [at for at, call in enumerate(calls) if any(word.startswith("S(") for word in call.layout)]
    if not any(before[at].kind == REFUSED and after[at].kind == FREE for at in shards):
        return (
            "nothing is wrong, and nothing is free: every sharded input is gathered first. Which dimension need not be?"
        )
    return None
