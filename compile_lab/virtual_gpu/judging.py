"""Inside a child: a function on the same data, eagerly and by its generated kernels, and how far they are apart."""

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map_only

from .._torch.flex import flex_as_on_a_gpu
from ..measure.judge import largest_relative_error
from ..tensors import tensors
from . import travel
from .errors import UnsupportedKernel
from .fake_cuda import compiling
from .interpreter import Interpreter


def judged(body: bytes, config: dict[str, Any]) -> dict[str, Any]:
    """The fields of an Interpreted. `body` is unpickled once for each side: neither sees what the other changed."""
    with flex_as_on_a_gpu():  # the data is here, and stands for a GPU's
        fn, args, kwargs, _ = travel.unpacked(body)
        expected = _step(fn, fn, args, kwargs)
        fn, args, kwargs, edit = travel.unpacked(body)
        interpreter = Interpreter(edit)
        with compiling(config):
            outputs, gradients = _step(torch.compile(fn, backend=interpreter, dynamic=False), fn, args, kwargs)
    if not interpreter.launches:
        raise UnsupportedKernel("no generated kernel ran: nothing in the function was compiled to one")
    if not callable(edit) and (unknown := [name for name in edit if name not in interpreter.kernels]):
        raise ValueError(f"edit names {', '.join(unknown)}, and the kernels are {', '.join(interpreter.kernels)}")
    return {
        "outputs": outputs,
        "gradients": gradients,
        "errors": dict(_errors(outputs, gradients, *expected)),
        "launches": dict(interpreter.launches),
        "kernels": interpreter.kernels,
        "notes": tuple(sorted(interpreter.notes)),
    }


def _step(call: Callable[..., Any], fn: Any, args: Any, kwargs: Any) -> tuple[Any, dict[str, Tensor]]:
    """Outputs, and the gradient of their sum (of the loss, if that is what is returned) for every named leaf."""
    leaves = dict(_leaves(fn, args, kwargs))
    for leaf in leaves.values():
        leaf.grad = None
    outputs = call(*args, **kwargs)
    with_grad = [each for each in tensors(outputs) if each.requires_grad]
    if with_grad:
        torch.autograd.backward(with_grad, [torch.ones_like(each) for each in with_grad])
    detached = tree_map_only(Tensor, Tensor.detach, outputs)
    return detached, {name: leaf.grad for name, leaf in leaves.items() if leaf.grad is not None}


def _leaves(fn: Any, args: Any, kwargs: Any) -> Iterator[tuple[str, Tensor]]:
    """Every leaf that requires grad, by the name that its user knows; of two names the first."""
    seen: set[int] = set()
    for name, owner in _owners(fn, args, kwargs).items():
        for path, leaf in _inside(name, owner):
            if leaf.requires_grad and leaf.is_leaf and id(leaf) not in seen:
                seen.add(id(leaf))
                yield path, leaf


def _owners(fn: Any, args: Any, kwargs: Any) -> dict[str, Any]:
    owner = fn if isinstance(fn, nn.Module) else getattr(fn, "__self__", None)
    owners: dict[str, Any] = {"": owner} if isinstance(owner, nn.Module) else {}
    try:
        called = inspect.signature(fn.forward if isinstance(fn, nn.Module) else fn).bind(*args, **kwargs)
        owners |= called.arguments
    except (TypeError, ValueError):  # a builtin has no signature
        owners |= {f"args[{i}]": arg for i, arg in enumerate(args)} | kwargs
    try:
        free = inspect.getclosurevars(getattr(fn, "__func__", fn))
        owners = {**free.globals, **free.nonlocals, **owners}
    except TypeError:
        pass
    return owners


def _inside(name: str, owner: Any) -> Iterator[tuple[str, Tensor]]:
    if isinstance(owner, Tensor):
        yield name, owner
    elif isinstance(owner, nn.Module):
        yield from ((f"{name}.{path}" if name else path, leaf) for path, leaf in owner.named_parameters())
    elif isinstance(owner, list | tuple):
        for i, each in enumerate(owner):
            yield from _inside(f"{name}[{i}]", each)
    elif isinstance(owner, dict):
        for key, each in owner.items():
            yield from _inside(f"{name}[{key!r}]", each)


def _errors(outputs: Any, gradients: dict[str, Tensor], expected: Any, slopes: dict[str, Tensor]) -> Iterator[Any]:
    """Largest difference from eager, relative to eager's largest value."""
    ours, theirs = tensors(outputs), tensors(expected)
    for i, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        yield ("output" if len(ours) == 1 else f"output[{i}]"), largest_relative_error(a, b)
    for name, slope in slopes.items():
        yield f"gradient of {name}", largest_relative_error(gradients[name], slope)
