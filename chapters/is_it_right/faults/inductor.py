"""Faults of Inductor: passes that rewrite the graph, decompositions, lowering, and the code that it writes."""

import math
from typing import Any

import torch
import torch.nn.functional as F

from .catalogue import Compile, fault, with_gradients


@fault(186281, "x * 0 becomes 0 where x is NaN", "graph passes")
def _(compiled: Compile) -> list[Any]:
    return [compiled(lambda x: x * 0)(torch.tensor([1.0, math.nan, math.inf]))]


@fault(189787, "a last bit decides: the sum of a softmax, rounded down", "decompositions")
def _(compiled: Compile) -> list[Any]:
    def share(x):
        return torch.softmax(x, -1).sum(-1).floor()  # a last bit decides: 0 or 1

    torch.manual_seed(42)
    return [compiled(share)(torch.randn(43, 59))]


@fault(183986, "index_add into an expanded tensor", "graph passes", "`.contiguous()` after `expand`")
def _(compiled: Compile) -> list[Any]:
    def counts(rows, index):
        return torch.zeros(1, 4).expand(3, 4).index_add(0, index, rows)

    return [compiled(counts)(torch.ones(2, 4), torch.tensor([0, 2]))]


@fault(190855, "the Hessian of a trace", "graph passes", "`x.diagonal().sum()` for `x.trace()`")
def _(compiled: Compile) -> list[Any]:
    return [compiled(torch.func.hessian(lambda x: x.trace().square()))(torch.ones(2, 2))]


@fault(197895, "a // b is one too many", "lowering")
def _(compiled: Compile) -> list[Any]:
    return [compiled(lambda a, b: a // b)(torch.tensor([1.0, 0.5, 6.0]), torch.tensor([0.1, 0.1, 0.2]))]


@fault(143978, "the angle of NaN", "decompositions")
def _(compiled: Compile) -> list[Any]:
    return [compiled(lambda x: torch.angle(x.sqrt()).tan())(torch.tensor([-1.0, 1.0, -4.0, 4.0] * 2))]


@fault(182012, "the gradient of diagonal_scatter", "lowering")
def _(compiled: Compile) -> list[Any]:
    return with_gradients(
        compiled(lambda x, diagonal: torch.diagonal_scatter(x, diagonal).sum()), torch.ones(5, 5), torch.ones(5)
    )


@fault(180164, "the gradient of slice_scatter, then summed", "lowering")
def _(compiled: Compile) -> list[Any]:
    def kept(x, part):
        return torch.slice_scatter(x, part, dim=1, end=4).sum(1)

    torch.manual_seed(0)
    return with_gradients(compiled(kept), torch.randn(3, 9, 17), torch.randn(3, 4, 17))


@fault(180771, "the gradient of slice_scatter in one dimension", "lowering")
def _(compiled: Compile) -> list[Any]:
    return with_gradients(
        compiled(lambda x, part: torch.slice_scatter(x, part, end=3).sum()), torch.arange(6.0), torch.ones(3)
    )


@fault(197739, "argmin of a transposed operand", "lowering", "`.contiguous()` before `argmin`")
def _(compiled: Compile) -> list[Any]:
    return [compiled(lambda x: (2 * x.t()).argmin())(torch.tensor([[3.0, 1.0], [4.0, 2.0]]))]


@fault(183894, "argmin of a transposed input that was changed in place", "lowering")
def _(compiled: Compile) -> list[Any]:
    def smallest(x):
        x.cos_()
        return x.t().argmin()

    x = torch.arange(35.0).reshape(5, 7)
    return [compiled(smallest)(x), x]


@fault(178964, "the indices of max over a transposed operand", "lowering")
def _(compiled: Compile) -> list[Any]:
    torch.manual_seed(0)
    x, y = torch.randn(8, 8).t(), torch.randn(8, 8)
    return list(compiled(lambda x, y: (x * y).max(dim=1))(x, y))


@fault(138908, "an indexed += with an index that repeats", "lowering")
def _(compiled: Compile) -> list[Any]:
    def add(index, y):
        index = index + 1
        y[index] += y[index]

    y = torch.ones(3, 16)
    compiled(add, dynamic=True)(torch.full((1, 4), -1), y)
    return [y]


@fault(190764, "a sum of int32 matmuls", "lowering")
def _(compiled: Compile) -> list[Any]:
    torch.manual_seed(0)
    x, y, z = (torch.randint(-(2**31), 2**31 - 1, (3, 3), dtype=torch.int32) for _ in range(3))
    return [compiled(lambda x, y, z: (x @ y + y @ z + z @ x).sum(1))(x, y, z)]


@fault(185509, "gradients through interpolate, conv2d, max_pool2d and where", "lowering")
def _(compiled: Compile) -> list[Any]:
    def parts(x, weight):
        wide = F.interpolate(x, scale_factor=(1.5, 1.25), mode="bilinear")[:, :, 1:7, 1:8]
        features = F.conv2d(wide, weight, padding=1)
        return features, F.max_pool2d(features, 3, 1, 1)

    def chosen(x, weight, mask):
        return torch.where(mask, *parts(x, weight))

    torch.manual_seed(0)
    x, weight = torch.randn(2, 3, 8, 8), torch.randn(4, 3, 3, 3)
    features, pooled = parts(x, weight)
    mask = features > pooled.mean(dim=(2, 3), keepdim=True)
    return with_gradients(compiled(chosen), x, weight, mask)


@fault(185382, "an optimizer's step with .item(), in a loop", "code")
def _(compiled: Compile) -> list[Any]:
    def step(parameter, gradient, mean, count):
        count.add_(1)
        mean.mul_(0.9).add_(gradient, alpha=0.1)
        steps = count.item()
        parameter.add_(mean, alpha=-0.1 / (1 - 0.9**steps))

    def train(parameter, gradient):
        mean, count = torch.zeros_like(parameter), torch.tensor(0.0)
        for _ in range(4):
            step(parameter, gradient, mean, count)
        return parameter

    torch.manual_seed(0)
    return [compiled(train)(torch.randn(16), torch.randn(16))]


@fault(191499, "the least of 18 uint8", "code")
def _(compiled: Compile) -> list[Any]:
    return [compiled(torch.min)(torch.tensor([7, 3, 120, *range(10, 25)], dtype=torch.uint8))]


@fault(186799, "the gradient of the least atan2 is lost", "code")
def _(compiled: Compile) -> list[Any]:
    torch.manual_seed(0)
    return with_gradients(compiled(lambda y, x: torch.atan2(y, x).amin(-1)), torch.randn(2, 3), torch.randn(2, 3))


@fault(196681, "the tail of a reduction in tiles is stored whole", "code")
def _(compiled: Compile) -> list[Any]:
    def both(x):
        turned = x.permute(2, 0, 1).exp()
        return turned.sum(2), turned.amax(0)

    torch.manual_seed(0)
    return list(compiled(both)(torch.randn(3, 18, 34)))


@fault(198280, "a tensor is overwritten with its own transpose", "code")
def _(compiled: Compile) -> list[Any]:
    def turn(x):
        x.copy_(2 * x.transpose(-1, -2))
        return x

    torch.manual_seed(0)
    return [compiled(turn)(torch.rand(600, 5, 5))]


@fault(143555, "a shift by 64 bits", "code")
def _(compiled: Compile) -> list[Any]:
    return [compiled(torch.bitwise_right_shift)(torch.tensor(1000), torch.tensor(64))]


@fault(
    193061,
    "two layer norms scaled and shifted by one parameter: a gradient that nothing writes",
    "code",
    "`TORCHINDUCTOR_MIX_ORDER_REDUCTION=0`, or `torch._inductor.config.triton.mix_order_reduction = False`",
    chip="H200",
)
def _(compiled: Compile) -> list[Any]:
    def block(x, table, weight):
        scale, shift, scale_2, shift_2 = table.chunk(4, dim=1)
        x = F.layer_norm(x, (1024,)) * (1 + scale) + shift
        return F.layer_norm(x @ weight, (1024,)) * (1 + scale_2) + shift_2

    torch.manual_seed(0)
    inputs = torch.randn(1, 8192, 1024), torch.randn(1, 4, 1024), torch.randn(1024, 1024)
    return with_gradients(compiled(block), *inputs)
