"""What a report tries on a given model: other batches and modes, autocast, registers.

Each is a plain function of the model; the state of the model (its mode, its gradients) is afterwards what it was.
"""

import contextlib
import functools
import math
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from .._torch.dispatcher import without_fakes
from .._torch.dynamo import reset_dynamo
from ..dynamo.recompiles import Watched, WatchedCall, watch
from ..inductor.generated import GeneratedCode
from ..precision import casts
from ..precision.casts import TypedTrace, dtypes
from ..source import users_line
from ..tensors import known_nbytes, tensors
from ..virtual_gpu.assembly import Resources, resources
from ..virtual_gpu.client import Begun, begin
from .given import GivenModel, raised

LARGEST_KERNELS = 5
NOT_TRIED = "not tried"
MOST_TRIED_NBYTES = 100_000_000
"""Of the arguments of an operation that is tried on zeros."""
OF_A_DTYPE = re.compile(
    r"(?i)same (scalar |d)?type|expected .*(dtype|scalar type)|dtypes? .*match|unsafe to autocast|unsupported dtype"
)
"""What a kernel says of two dtypes where it takes one; not that a CPU lacks the kernel."""


@dataclass(frozen=True)
class Tried:
    """One change of the call, what became of it, and the guards of the code for the call as it is that it ``failed``.
    ``outcome`` as in ``WatchedCall``, or "refused" if the model does not take such a call eagerly either, or "not
    tried" where time was over."""

    change: str
    call: str
    outcome: str
    failed: tuple[str, ...]

    @property
    def at_limit(self) -> bool:
        """True where torch would have compiled again, and has done so as often as it does."""
        return self.outcome == "eager" and bool(self.failed)

    @property
    def compiled_again(self) -> bool:
        return self.outcome == "compiled"


def tried(given: GivenModel, seconds: float = math.inf, watched: Watched | None = None) -> tuple[Tried, ...]:
    """The call as it is, then with other batch sizes, another length, in eval mode and in training mode again.

    Each change compiles anew or is answered by what was compiled; after so many seconds none is begun any more.
    ``watched`` has made the first call already.
    """
    watched, until = watched or watch(given.model), time.perf_counter() + seconds
    found: list[Tried] = []
    try:
        with modes_kept(given.model):
            for change, training, cut in _changes(given):
                if not found and watched.calls:
                    found.append(_trial(change, watched.calls[0]))
                    continue
                if time.perf_counter() > until:
                    found.append(Tried(change, "", NOT_TRIED, ()))
                    continue
                args, kwargs = _cut(given, cut)
                if training is not None:
                    given.model.train(training)
                found.append(_one(watched, given, change, args, kwargs))
    finally:
        reset_dynamo()
    return tuple(found)


def _one(watched: Watched, given: GivenModel, change: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tried:
    made = len(watched.calls)
    try:
        with torch.compiler.set_stance("force_eager"):  # also where the reader compiles parts of it
            given.model(*args, **kwargs)  # with gradients: some take one in their forward
    except Exception as error:  # not torch.compile's doing: the model itself takes no such call
        return Tried(change, type(error).__name__, "refused", ())
    with contextlib.suppress(Exception):  # the call's own outcome says that it raised
        watched(*args, **kwargs)
    if len(watched.calls) == made:
        return Tried(change, "", "could not be tried", ())
    return _trial(change, watched.calls[made])


def _trial(change: str, call: WatchedCall) -> Tried:
    return Tried(change, call.arguments, call.outcome, call.unlike_first or call.failed)


def _changes(given: GivenModel) -> Iterator[tuple[str, bool | None, Callable[[Tensor], Tensor] | None]]:
    rows = next((each.shape[0] for each in tensors((given.args, given.kwargs)) if each.ndim), 0)
    length = _length(given)
    yield "as it is", None, None
    for size in [size for size in (rows - 1, rows - 2) if size > 1]:
        yield f"batch of {size}", None, _of_rows(rows, size)
    if rows > 1:
        yield "batch of 1", None, _of_rows(rows, 1)
    if length:
        yield f"length {length - 1}", None, _of_length(length, length - 1)
        yield f"length {length - 2}", None, _of_length(length, length - 2)
    if given.model.training:
        yield "eval mode", False, None
        yield "training mode again", True, None


def _length(given: GivenModel) -> int:
    """The second size of the first tensor of tokens or of vectors; 0 where there is none to be cut."""
    found = [each for each in tensors((given.args, given.kwargs)) if each.ndim in (2, 3)]
    words = [each for each in found if not each.is_floating_point() or each.ndim == 3]
    return words[0].shape[1] if words and words[0].shape[1] > 3 else 0


def _of_rows(rows: int, size: int) -> Callable[[Tensor], Tensor]:
    return lambda t: t[:size].clone() if t.ndim and t.shape[0] == rows else t


def _of_length(length: int, size: int) -> Callable[[Tensor], Tensor]:
    return lambda t: t[:, :size].clone() if t.ndim > 1 and t.shape[1] == length else t


def _cut(given: GivenModel, cut: Callable[[Tensor], Tensor] | None) -> tuple[tuple[Any, ...], dict[str, Any]]:
    made: dict[int, Tensor] = {}  # a tensor that is handed over twice is the same one twice afterwards, too

    def each(value: Any) -> Any:
        if cut is None or not isinstance(value, Tensor):
            return value
        if id(value) not in made:
            made[id(value)] = cut(value)
        return made[id(value)]

    return tuple(map(each, given.args)), {name: each(value) for name, value in given.kwargs.items()}


@contextlib.contextmanager
def modes_kept(model: nn.Module) -> Iterator[None]:
    """After the block each module is in training or eval mode as it was."""
    modes = {module: module.training for module in model.modules()}
    try:
        yield
    finally:
        for module, training in modes.items():
            module.training = training


@dataclass(frozen=True)
class UnderAutocast:
    """A step under bf16 autocast, as a GPU's dispatcher decides it: the dtypes of every operation; None where the step
    raises there and runs without autocast. ``raises`` is what it then raises, or what a kernel says that is handed two
    floating dtypes and takes one, with the line; "" if neither does."""

    trace: TypedTrace | None
    raises: str


def begin_autocast(given: GivenModel, chip: str) -> Begun:
    """The step under autocast, on a virtual GPU: ``result()`` is an `UnderAutocast`."""
    return begin(chip, _autocast, given.loss, given.args, dict(given.kwargs))


def _autocast(loss: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> UnderAutocast:
    def step() -> Tensor:
        with torch.autocast("cuda", torch.bfloat16):
            return loss(*args, **kwargs)

    try:
        with _MixedDtypes() as mixed:
            trace = dtypes(step, model=loss)
    except Exception as error:
        dtypes(functools.partial(loss, *args, **kwargs), model=loss)  # what raises here, too, is not autocast's
        return UnderAutocast(None, raised(error))
    return UnderAutocast(trace, next(iter(mixed.raises), ""))


class _MixedDtypes(TorchDispatchMode):
    """Operations that are handed two floating dtypes, tried on zeros by this CPU's kernels: they check what no fake
    tensor checks. What only a CPU's kernel lacks is not told."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[tuple[Any, ...]] = set()
        self.raises: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = tensors((args, kwargs))
        dtypes = tuple(each.dtype for each in given)
        mixed = len({each for each in dtypes if each.is_floating_point}) > 1
        if mixed and (func, dtypes) not in self.seen and sum(map(known_nbytes, given)) < MOST_TRIED_NBYTES:
            self.seen.add((func, dtypes))
            if said := _on_zeros(func, args, kwargs or {}):
                line = users_line(sys._getframe(1), __file__, casts.__file__)
                self.raises.append(f"{said}, at {line}: `{line.text}`" if line else said)
        return func(*args, **(kwargs or {}))


def _on_zeros(func: Any, args: Any, kwargs: dict[str, Any]) -> str:
    """What the operation raises where it is handed zeros of these sizes and dtypes; "" if it runs."""

    def zeros(value: Any) -> Any:
        if isinstance(value, Tensor):
            return torch.zeros(value.shape, dtype=value.dtype, device="cpu")
        return torch.device("cpu") if isinstance(value, torch.device) else value

    try:
        with without_fakes():
            func(*tree_map(zeros, args), **tree_map(zeros, kwargs))
    except RuntimeError as error:
        said = str(error).partition("\n")[0]
        return f"{func.overloadpacket}: {said}" if OF_A_DTYPE.search(said) else ""
    return ""


def registers(code: GeneratedCode) -> Mapping[str, Resources]:
    """Registers, spills and warps of the kernels that move most bytes, by their names."""
    largest = sorted(code.written, key=lambda kernel: -kernel.nbytes)[:LARGEST_KERNELS]
    taken = resources(largest, code.chip or "") if largest else ()
    return {kernel.name: each for kernel, each in zip(largest, taken, strict=True)}
