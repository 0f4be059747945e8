"""What goes to a child process and comes back: functions by cloudpickle, tensors as descriptions or with their values.

A description is shape, stride, dtype, requires_grad, whether it is a parameter, and what `mark_dynamic` has noted. The
same tensor twice (tied weights) is the same tensor twice on the other side, since pickle remembers what it has seen.
"""

import contextlib
import importlib.util
import io
import pickle
import sys
import types
from pathlib import Path
from typing import Any

import cloudpickle
import torch
from torch import Tensor, nn
from torch.nn.utils.parametrize import is_parametrized

from .._torch.custom_ops import CustomOpDef, operator_again, parts_of, readers_operators
from .._torch.virtual_gpu import parametrized_again
from ..pickling import Pickler
from .kernels import KERNELS, TUNED, HandWritten, hand_written, tuned_again, tuned_parts

landing = "meta"
"""The device on which descriptions become tensors again: "cuda" in a child, under its fake mode; here "meta", since a
result has no values either."""


def dumps(thing: Any, *, values: bool) -> bytes:
    """Pickle what cloudpickle can, notebook functions included; tensors with their `values` or as descriptions.

    Raises TypeError for what cannot travel: a sparse tensor, a tensor subclass, an open file, a lock, …
    """
    return _dumped(thing, values)[0]


def _dumped(thing: Any, values: bool) -> tuple[bytes, set[str]]:
    """The bytes, and the modules of what is in them."""
    file = io.BytesIO()
    pickler = (_WithValues if values else _Described)(file)
    pickler.dump(thing)
    return file.getvalue(), pickler.modules


loads = pickle.loads


def packed(thing: Any, *, values: bool) -> bytes:
    """What a child is to do, as bytes: as `dumps`, with the operators that the reader's code has made."""
    own = readers_operators({"__main__", *cloudpickle.list_registry_pickle_by_value()})
    work, modules = _dumped((own, thing), values)
    return pickle.dumps((sorted(modules), work))


def imported(body: bytes) -> None:
    """Import the installed packages that a body needs: a process that forks for each body does so once for all."""
    modules, _ = pickle.loads(body)
    for name in modules:
        if name not in sys.modules and _is_installed(name.partition(".")[0]):
            with contextlib.suppress(Exception):  # the fork imports it again, and tells what it raises
                importlib.import_module(name)


def _is_installed(package: str) -> bool:
    """Not the reader's own file, which may be another by the next body."""
    if package == __name__.partition(".")[0]:
        return True
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return False
    origin = (spec and spec.origin) or ""
    return not {"site-packages", "dist-packages"}.isdisjoint(Path(origin).parts)


def unpacked(body: bytes) -> Any:
    """What `packed` was given, in a child. The modules of functions that came by value can be imported there: Dynamo
    does so where it looks up a global name of an inlined function, and would else run the reader's file once more.
    """
    landing = _Landing(io.BytesIO(pickle.loads(body)[1]))
    _, thing = landing.load()
    for names in landing.scopes.values():
        name = names.get("__name__", "__main__")
        if name not in sys.modules:
            sys.modules[name] = types.ModuleType(name)
            _stand_ins.add(name)
        if name in _stand_ins:  # by the last load: another may have brought the same names with other values
            vars(sys.modules[name]).update({key: each for key, each in names.items() if not key.startswith("__")})
    return thing


_stand_ins = {"__main__"}
"""Modules of this process that stand for the caller's; those that can be imported here are their own."""


class _Landing(pickle.Unpickler):
    """Keeps, as ``scopes``, the global names of each function that comes by value, one dict a module."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self.scopes: dict[int, dict[str, Any]] = {}

    def find_class(self, module: str, name: str) -> Any:
        found = super().find_class(module, name)
        if (module, name) != ("cloudpickle.cloudpickle", "_function_setstate"):
            return found

        def filled(function: types.FunctionType, state: Any) -> Any:
            self.scopes[id(function.__globals__)] = function.__globals__
            return found(function, state)

        return filled


_SYMBOLIC = {torch.SymInt: int, torch.SymFloat: float, torch.SymBool: bool}


class _Travelling(Pickler):
    """Keeps, as ``modules``, those of all classes and functions."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self.modules: set[str] = set()

    def reducer_override(self, thing: Any) -> Any:
        module = (thing if isinstance(thing, type | types.FunctionType) else type(thing)).__module__
        if isinstance(module, str):
            self.modules.add(module)
        if type(thing).__name__ in KERNELS:
            return HandWritten.made, (hand_written(thing), f"{thing.__name__}.py")
        if type(thing).__name__ in TUNED:
            return tuned_again, tuned_parts(thing)
        if isinstance(thing, nn.Module) and is_parametrized(thing):
            assert isinstance(thing.parametrizations, nn.ModuleDict)
            return parametrized_again, (type(thing).__bases__[0], dict(thing.__dict__), tuple(thing.parametrizations))
        if isinstance(thing, CustomOpDef):
            return operator_again, parts_of(thing)
        return super().reducer_override(thing)


class _Described(_Travelling):
    def reducer_override(self, thing: Any) -> Any:
        if isinstance(thing, Tensor):
            described = tuple(thing.size()), tuple(thing.stride()), thing.dtype, thing.requires_grad, _kind(thing)
            return _landed, (*described, _marks(thing))
        # A number that was read from a tensor, or the size of one that hangs on values: it is known, or this raises.
        for kind, plain in _SYMBOLIC.items():
            if isinstance(thing, kind):
                return plain, (plain(thing),)
        return super().reducer_override(thing)


class _WithValues(_Travelling):
    """Tensors of one storage are of one storage on the other side, too."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self.storages: dict[tuple[str, int], _Storage] = {}

    def reducer_override(self, thing: Any) -> Any:
        if not isinstance(thing, Tensor):
            return super().reducer_override(thing)
        kind, marks = _kind(thing), dict(vars(thing))
        if thing.device.type == "meta":
            raise TypeError("a tensor on the meta device has no values to compute with")
        # The child sees no GPU; and a tensor in the middle of a graph arrives as a leaf.
        plain = thing.detach().resolve_conj().resolve_neg()
        storage = plain.untyped_storage()
        key = str(storage.device), storage.data_ptr() or id(thing)
        held = self.storages.setdefault(key, _Storage(storage))
        where = plain.storage_offset(), tuple(plain.size()), tuple(plain.stride())
        return _of_storage, (held, plain.dtype, where, thing.requires_grad, kind, marks)


class _Storage:
    """Its bytes, on their way; kept, so that no other takes its place in memory meanwhile."""

    def __init__(self, storage: torch.UntypedStorage) -> None:
        self.storage = storage

    def __reduce__(self) -> Any:
        view = torch.empty(0, dtype=torch.uint8, device=self.storage.device).set_(self.storage)
        return _storage_again, (view.cpu().numpy().tobytes(),)


def _storage_again(content: bytes) -> torch.UntypedStorage | None:
    return torch.frombuffer(bytearray(content), dtype=torch.uint8).clone().untyped_storage() if content else None


def _of_storage(
    storage: torch.UntypedStorage | None, dtype: torch.dtype, where: Any, grad: bool, kind: str, marks: dict[str, Any]
) -> Tensor:
    offset, size, stride = where
    if storage is None:
        tensor = torch.empty_strided(size, stride, dtype=dtype)
    else:
        tensor = torch.empty(0, dtype=dtype).set_(storage, offset, size, stride)
    tensor = _marked(tensor, grad, kind)
    vars(tensor).update(marks)
    return tensor


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


def _marks(tensor: Tensor) -> dict[str, Any]:
    """What ``mark_dynamic`` and its like have noted on it."""
    return {name: value for name, value in vars(tensor).items() if name.startswith("_dynamo_")}


def _landed(
    size: tuple[int, ...], stride: tuple[int, ...], dtype: torch.dtype, grad: bool, kind: str, marks: dict[str, Any]
) -> Tensor:
    tensor = _marked(torch.empty_strided(size, stride, dtype=dtype, device=landing), grad, kind)
    vars(tensor).update(marks)
    return tensor


def _marked(tensor: Tensor, grad: bool, kind: str) -> Tensor:
    return nn.Parameter(tensor, requires_grad=grad) if kind == "parameter" else tensor.requires_grad_(grad)
