"""What goes to a child process and comes back: functions by cloudpickle, tensors as descriptions or with their values.

A description is shape, stride, dtype, requires_grad and whether it is a parameter. The same tensor twice (tied
weights) is the same tensor twice on the other side, since pickle remembers what it has seen.
"""

import io
import pickle
from typing import Any

import cloudpickle
import torch
from torch import Tensor, nn
from torch.nn.utils.parametrize import is_parametrized

from .._torch.virtual_gpu import parametrized_again
from .kernels import KERNELS, TUNED, HandWritten, hand_written

landing = "meta"
"""The device on which descriptions become tensors again: "cuda" in a child, under its fake mode; here "meta", since a
result has no values either."""


def dumps(thing: Any, *, values: bool) -> bytes:
    """Pickle what cloudpickle can, notebook functions included; tensors with their `values` or as descriptions.

    Raises TypeError for what cannot travel: a sparse tensor, a tensor subclass, an open file, a lock, …
    """
    file = io.BytesIO()
    (_WithValues if values else _Described)(file).dump(thing)
    return file.getvalue()


loads = pickle.loads


_SYMBOLIC = {torch.SymInt: int, torch.SymFloat: float, torch.SymBool: bool}


class _Travelling(cloudpickle.Pickler):
    def reducer_override(self, thing: Any) -> Any:
        if type(thing).__name__ in (*KERNELS, *TUNED):  # the second kind is refused there
            return HandWritten.made, (hand_written(thing), f"{thing.__name__}.py")
        if isinstance(thing, nn.Module) and is_parametrized(thing):
            return parametrized_again, (type(thing).__bases__[0], dict(thing.__dict__), tuple(thing.parametrizations))
        return super().reducer_override(thing)


class _Described(_Travelling):
    def reducer_override(self, thing: Any) -> Any:
        if isinstance(thing, Tensor):
            described = tuple(thing.size()), tuple(thing.stride()), thing.dtype, thing.requires_grad, _kind(thing)
            return _landed, described
        # A number that was read from a tensor, or the size of one that hangs on values: it is known, or this raises.
        for kind, plain in _SYMBOLIC.items():
            if isinstance(thing, kind):
                return plain, (plain(thing),)
        return super().reducer_override(thing)


class _WithValues(_Travelling):
    def reducer_override(self, thing: Any) -> Any:
        if isinstance(thing, Tensor):
            kind = _kind(thing)
            if thing.device.type == "meta":
                raise TypeError("a tensor on the meta device has no values to compute with")
            # The child sees no GPU; and a tensor in the middle of a graph arrives as a leaf.
            if thing.device.type != "cpu" or thing.grad_fn is not None:
                return _marked, (thing.detach().cpu(), thing.requires_grad, kind)
        return super().reducer_override(thing)


def _kind(tensor: Tensor) -> str:
    if isinstance(tensor, nn.Parameter):
        return "parameter"
    # A child's results are FakeTensors: for whoever looks from outside they are tensors without values.
    if type(tensor) not in (Tensor, nn.Buffer) and type(tensor).__name__ != "FakeTensor":
        raise TypeError(
            f"a {type(tensor).__name__} cannot travel to another process: only plain tensors and parameters"
        )
    if tensor.layout != torch.strided:
        raise TypeError(f"a tensor of layout {tensor.layout} cannot travel: only dense ones have sizes and strides")
    return "tensor"


def _landed(size: tuple[int, ...], stride: tuple[int, ...], dtype: torch.dtype, grad: bool, kind: str) -> Tensor:
    return _marked(torch.empty_strided(size, stride, dtype=dtype, device=landing), grad, kind)


def _marked(tensor: Tensor, grad: bool, kind: str) -> Tensor:
    return nn.Parameter(tensor, requires_grad=grad) if kind == "parameter" else tensor.requires_grad_(grad)
