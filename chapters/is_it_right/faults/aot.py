"""Faults of AOTAutograd: views, in-place changes and what the backward is given, once there is one pure graph."""

from typing import Any

import torch
import torch.nn.functional as F

from .catalogue import Compile, fault


@fault(195422, "an in-place change after a dropout that does nothing", "AOTAutograd", "`y = y + y` for `y += y`")
def _(compiled: Compile) -> list[Any]:
    def doubled(x):
        y = F.dropout(x, 0.1, training=False)  # eager: y is x
        y += y
        return y

    x = torch.ones(3)
    return [compiled(doubled)(x), x]


@fault(139789, "two inputs that overlap, from the second call on", "AOTAutograd", "give one of them as a `.clone()`")
def _(compiled: Compile) -> list[Any]:
    def scale_and_add(x, y):
        x.mul_(3)
        return x + y

    step = compiled(scale_and_add)
    first = step(torch.ones(3), torch.ones(3))
    memory = torch.ones(5)
    return [first, step(memory[:3], memory[1:4]), memory]


@fault(191449, "resize_() of a view of an intermediate", "AOTAutograd", "`z = z[:1]` for `z.resize_(1)`")
def _(compiled: Compile) -> list[Any]:
    def cut(x):
        y = 3 * x
        z = y.view_as(y)
        z.resize_(1)
        return y + 1, z

    with torch.no_grad():
        whole, part = compiled(cut)(torch.ones(2, 3))
    return [list(whole.shape), list(part.shape), part]


@fault(198095, "the result is a view of an input that overlaps another", "AOTAutograd")
def _(compiled: Compile) -> list[Any]:
    def change(whole, rows):
        whole.mul_(10)
        return rows[1]

    memory = torch.arange(12.0).reshape(4, 3)
    return [compiled(change)(memory, memory[1:]), memory]


@fault(197039, "a buffer changes between forward and backward", "AOTAutograd")
def _(compiled: Compile) -> list[Any]:
    scale = torch.full((3,), 2.0)
    forward = compiled(lambda x: (x * scale.exp()).sin())
    x = torch.ones(3, requires_grad=True)
    result = forward(x)
    with torch.no_grad():
        compiled(lambda: scale.zero_())()
    result.sum().backward()
    return [result.detach(), x.grad]


@fault(152425, "a write into an expanded tensor", "AOTAutograd")
def _(compiled: Compile) -> list[Any]:
    def set_last(x):
        wide = x.expand(3)
        wide[-1] = 7
        return wide

    return [compiled(set_last)(torch.zeros(()))]


@fault(
    198102,
    "a write through windows with gaps between them",
    "AOTAutograd",
    "slices: `x[:, ::5]` for `x.unfold(1, 1, 5)`",
)
def _(compiled: Compile) -> list[Any]:
    def double_some(x):
        x.unfold(1, 1, 5).mul_(2)
        return x

    return [compiled(double_some)(torch.ones(2, 8))]


@fault(136662, "columns added to in place, under torch.func.grad", "AOTAutograd")
def _(compiled: Compile) -> list[Any]:
    def loss(x):
        y = torch.zeros_like(x)
        y[:, 0] += x[:, 1].square()
        y[:, 0] += x[:, 2].square()
        return y.sum()

    return [compiled(torch.func.grad(loss))(torch.arange(6.0).reshape(2, 3))]
