"""Faults of Dynamo: what it traces is not what Python would do, or its guards do not see that something changed."""

from typing import Any

import torch
import torch.autograd.forward_ad as forward_ad
from torch import nn

from .catalogue import Compile, fault, with_gradients


@fault(196467, "torch.Tensor(size) becomes data", "Dynamo", "`torch.empty(x.size())`")
def _(compiled: Compile) -> list[Any]:
    def like(x):
        return torch.Tensor(x.size())  # eager: uninitialised, of that size

    return [list(compiled(like)(torch.ones(2, 3)).shape)]


@fault(193279, "the backward of an autograd.Function is lost under torch.func.grad", "Dynamo")
def _(compiled: Compile) -> list[Any]:
    class Stopped(torch.autograd.Function):
        @staticmethod
        def forward(x):
            return x.exp()

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(output)

        @staticmethod
        def backward(ctx, gradient):
            return 0 * gradient

    return [compiled(torch.func.grad(lambda x: Stopped.apply(x).sum()))(torch.ones(3))]


@fault(192985, "the jvp of an autograd.Function is lost under torch.func.jvp", "Dynamo")
def _(compiled: Compile) -> list[Any]:
    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(x):
            return x.exp()

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def jvp(ctx, tangent):
            return 5 * tangent

    return list(compiled(lambda x: torch.func.jvp(Scaled.apply, (x,), (x,)))(torch.ones(3)))


@fault(187284, "the tangent of a dual number is lost", "Dynamo", "`torch.func.jvp` inside the compiled function")
def _(compiled: Compile) -> list[Any]:
    x = torch.ones(3)
    with forward_ad.dual_level():
        result = compiled(lambda x: x.exp())(forward_ad.make_dual(x, 2 * x))
        return [forward_ad.unpack_dual(result).tangent]


@fault(
    8491,
    "a forward that writes into an empty tensor: its backward is lost",
    "Dynamo",
    repository="deepspeedai/DeepSpeed",
)
def _(compiled: Compile) -> list[Any]:
    class Turned(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            turned = torch.empty_like(x)
            torch.mul(x.flip(0), 1, out=turned)
            return turned

        @staticmethod
        def backward(ctx, gradient):
            return gradient.flip(0)

    return with_gradients(compiled(lambda x: 2 * Turned.apply(x)), torch.ones(3))


@fault(191821, "a nested compile region reads a global of its first call", "Dynamo")
def _(compiled: Compile) -> list[Any]:
    state = {}

    @torch.compiler.nested_compile_region
    def layer():
        return 2 * state["x"] + 1

    def model(x):
        for _ in range(3):
            state["x"] = x
            x = layer()
        return x

    return [compiled(model)(torch.zeros(2))]


@fault(175855, "a generator over a list that grows", "Dynamo")
def _(compiled: Compile) -> list[Any]:
    def powers(x):
        found = [x]

        def walk():
            for each in found:
                if len(found) < 4:
                    found.append(2 * each)
                yield each

        return torch.stack(list(walk()))

    return [compiled(powers)(torch.ones(1))]


@fault(169253, "an append to a list of the class is lost", "Dynamo")
def _(compiled: Compile) -> list[Any]:
    class Counted(nn.Module):
        def forward(self, x):
            Counted.calls.append(x.mean())
            return 2 * x

    Counted.calls = []
    call = compiled(Counted().forward)
    for _ in range(3):
        call(torch.ones(2))
    return [len(Counted.calls)]


@fault(196211, "an iterator over a reversed list starts again", "Dynamo")
def _(compiled: Compile) -> list[Any]:
    def last_and_rest(x):
        backwards = reversed([x, 2 * x, 3 * x])
        last = next(backwards)
        return last, sum(iter(backwards))

    return list(compiled(last_and_rest)(torch.ones(1)))


@fault(176854, "detach_() detaches nothing", "Dynamo")
def _(compiled: Compile) -> list[Any]:
    def scaled(x):
        factor = 3 * x
        factor.detach_()
        return factor * x

    x = torch.ones(3, requires_grad=True)
    compiled(scaled)(x).sum().backward()
    return [x.grad]


@fault(180642, "an in-place operation in the forward of an autograd.Function", "Dynamo")
def _(compiled: Compile) -> list[Any]:
    class Shifted(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            shifted = x.clone()
            shifted += 5
            return shifted

        @staticmethod
        def backward(ctx, gradient):
            return 7 * gradient

    x = torch.ones(4, requires_grad=True)
    result = compiled(lambda x: 2 * Shifted.apply(x))(x)
    result.sum().backward()
    return [result.detach(), x.grad]


@fault(197859, "a layer replaced behind nn.Module's back", "guards", "`model.layer = other`, without `object.`")
def _(compiled: Compile) -> list[Any]:
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Hardtanh(-1, 1)

        def forward(self, x):
            return self.layer(x)

    model = Model()
    step = compiled(model)
    first = step(torch.full((2,), 9.0))
    object.__setattr__(model, "layer", nn.Hardtanh(-5, 5))
    return [first, step(torch.full((2,), 9.0))]


@fault(197860, "a bound method gets other code", "guards", "`torch.compiler.reset()` after the change")
def _(compiled: Compile) -> list[Any]:
    class Model:
        def scale(self, x):
            return 2 * x

    model = Model()
    step = compiled(lambda x: model.scale(x))
    first = step(torch.ones(2))
    Model.scale.__code__ = (lambda self, x: 3 * x).__code__
    return [first, step(torch.ones(2))]


@fault(196173, "`is` between two attributes has no guard", "guards", "compare numbers or strings, which are guarded")
def _(compiled: Compile) -> list[Any]:
    class Schedule:
        warm, cold = object(), object()

    schedule = Schedule()
    schedule.now = schedule.warm
    step = compiled(lambda x: 2 * x if schedule.now is schedule.warm else 3 * x)
    first = step(torch.ones(2))
    schedule.now = schedule.cold
    return [first, step(torch.ones(2))]


@fault(197811, "a closure over another method of Tensor", "guards", "close over `torch.add` and `torch.mul`")
def _(compiled: Compile) -> list[Any]:
    def applied(method):
        return lambda x, y: method(x, y)

    methods = torch.Tensor.__add__, torch.Tensor.__mul__
    return [compiled(applied(each), dynamic=True)(torch.full((), 4.0), torch.full((), 5.0)) for each in methods]


@fault(176851, "an attribute of a class changes", "guards")
def _(compiled: Compile) -> list[Any]:
    class Settings:
        scale = 2.0

    step = compiled(lambda x: Settings.scale * x)
    first = step(torch.ones(2))
    Settings.scale = 3.0
    return [first, step(torch.ones(2))]
