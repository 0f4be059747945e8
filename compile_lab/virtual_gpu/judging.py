"""Inside a child: a function on the same data, eagerly and by its generated kernels, and how far they are apart."""

import inspect
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy
import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map_only

from .._torch.flex import flex_as_on_a_gpu
from ..measure.judge import largest_relative_error, same_bits
from ..tensors import tensors
from . import travel
from .errors import UnsupportedKernel
from .fake_cuda import compiling
from .interpreter import Interpreter


def judged(body: bytes, config: dict[str, Any], seed: int) -> dict[str, Any]:
    """The fields of an Interpreted. `body` is unpickled once for each side: neither sees what the other changed. What
    is drawn at random comes from the CPU's generators on both sides, from the same seed."""
    with flex_as_on_a_gpu():  # the data is here, and stands for a GPU's
        fn, args, kwargs, _ = travel.unpacked(body)
        _seed(seed)
        expected = _step(fn, fn, args, kwargs)
        fn, args, kwargs, edit = travel.unpacked(body)
        interpreter = Interpreter(edit)
        with compiling({"fallback_random": True, **config}):
            _seed(seed)
            found = _step(torch.compile(fn, backend=interpreter, dynamic=False), fn, args, kwargs)
    if not interpreter.launches:
        raise UnsupportedKernel("no generated kernel ran: nothing in the function was compiled to one")
    if not callable(edit) and (unknown := [name for name in edit if name not in interpreter.kernels]):
        raise ValueError(f"edit names {', '.join(unknown)}, and the kernels are {', '.join(interpreter.kernels)}")
    return {
        "outputs": found.outputs,
        "gradients": found.gradients,
        "errors": dict(_errors(found, expected)),
        "launches": dict(interpreter.launches),
        "kernels": interpreter.kernels,
    }


def _seed(seed: int) -> None:
    torch.manual_seed(seed)
    random.seed(seed)
    numpy.random.seed(seed)


@dataclass(frozen=True)
class _Step:
    """gradients: of every leaf, by name. afterwards: what each tensor holds that is handed over or known to the
    function, changed or not; changed: those that it changed."""

    outputs: Any
    gradients: dict[str, Tensor]
    afterwards: dict[str, Tensor]
    changed: set[str]


def _step(call: Callable[..., Any], fn: Any, args: Any, kwargs: Any) -> _Step:
    """The gradient is that of the sum of the outputs, or of the loss, if that is what is returned."""
    known = dict(_known(fn, args, kwargs))
    leaves = {name: each for name, each in known.items() if each.requires_grad and each.is_leaf}
    for leaf in leaves.values():
        leaf.grad = None
    before = {name: each.detach().clone() for name, each in known.items()}
    outputs = call(*args, **kwargs)
    with_grad = [each for each in tensors(outputs) if each.requires_grad]
    if with_grad:
        torch.autograd.backward(with_grad, [torch.ones_like(each) for each in with_grad])
    detached = tree_map_only(Tensor, Tensor.detach, outputs)
    gradients = {name: leaf.grad for name, leaf in leaves.items() if leaf.grad is not None}
    afterwards = {name: each.detach() for name, each in known.items()}
    return _Step(detached, gradients, afterwards, {name for name in known if not _same(before[name], afterwards[name])})


def _same(before: Tensor, after: Tensor) -> bool:
    return before.shape == after.shape and same_bits(before, after)


def _known(fn: Any, args: Any, kwargs: Any) -> Iterator[tuple[str, Tensor]]:
    """Every tensor, by the name that its user knows; of two names the first."""
    seen: set[int] = set()
    for name, owner in _owners(fn, args, kwargs).items():
        for path, leaf in _inside(name, owner):
            if id(leaf) not in seen:
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
        for path, leaf in (*owner.named_parameters(), *owner.named_buffers()):
            yield f"{name}.{path}" if name else path, leaf
    elif isinstance(owner, list | tuple):
        for i, each in enumerate(owner):
            yield from _inside(f"{name}[{i}]", each)
    elif isinstance(owner, dict):
        for key, each in owner.items():
            yield from _inside(f"{name}[{key!r}]", each)


def _errors(found: _Step, expected: _Step) -> Iterator[tuple[str, float]]:
    """Largest difference from eager, relative to eager's largest value: of outputs, gradients, and what was changed."""
    ours, theirs = tensors(found.outputs), tensors(expected.outputs)
    for i, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        yield ("output" if len(ours) == 1 else f"output[{i}]"), largest_relative_error(a, b)
    for name, slope in expected.gradients.items():
        yield f"gradient of {name}", largest_relative_error(found.gradients[name], slope)
    for name in sorted(found.changed | expected.changed):
        yield f"{name} afterwards", largest_relative_error(found.afterwards[name], expected.afterwards[name])
