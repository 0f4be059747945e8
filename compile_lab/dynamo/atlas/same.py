"""Is it the same, to the bit? Tensors, arrays, containers and plain objects."""

from typing import Any

import numpy as np
import torch

_PLAIN = (int, float, str, bytes, bool, complex, type(None))


def same(a: Any, b: Any) -> bool:
    """Two results that a program could not tell apart: types, order, dtypes, bits, what requires a gradient."""
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        return _same_tensors(a, b)
    if type(a) is not type(b) and type(a).__qualname__ != type(b).__qualname__:
        return False
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(map(same, a.values(), b.values()))
    if isinstance(a, _PLAIN):
        return a == b or (a != a and b != b)
    if hasattr(a, "__dict__") and not isinstance(a, type) and not callable(a):
        return same(vars(a), vars(b))
    return a is b or bool(a == b) or (callable(a) and callable(b))


def state(arguments: Any) -> Any:
    """What arguments hold after a call: tensors with their gradients, in the containers they lie in."""
    if isinstance(arguments, torch.Tensor):
        return arguments, arguments.grad if arguments.is_leaf else None
    if type(arguments) in (list, tuple):
        return type(arguments)(state(each) for each in arguments)
    if isinstance(arguments, dict):
        return {key: state(value) for key, value in arguments.items()}
    return arguments


def _same_tensors(a: torch.Tensor, b: torch.Tensor) -> bool:
    if (a.dtype, a.layout, a.requires_grad) != (b.dtype, b.layout, b.requires_grad) or a.is_nested or b.is_nested:
        return False
    if a.layout is not torch.strided:
        a, b = a.to_dense(), b.to_dense()
    if a.shape != b.shape:
        return False
    return a.detach().contiguous().numpy().tobytes() == b.detach().contiguous().numpy().tobytes()
