"""All that a user could see of some calls of a program: results, gradients, and inputs and buffers afterwards."""

import contextlib
import copy
import copyreg
import dataclasses
import inspect
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy
import torch
from torch import Tensor, nn
from torch.utils._pytree import keystr, tree_flatten_with_path, tree_map

from .modes import widened

Values = dict[str, Any]
"""By name: a tensor, or a value of another kind."""
FORM = "form of "
"""Begins the name of a result's shape, dtype, and whether it needs a gradient: compared where its numbers cannot be."""


@dataclass(frozen=True)
class Call:
    """One call: what is done to the model before it, the batch, and how names of its results end. What is done may be a
    generator: what stands after its ``yield`` is done once all calls are over."""

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    before: Callable[[nn.Module], Any] = lambda model: None
    said: str = ""

    def given(self, exact: bool = False) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The batch once more, as leaves; what is floating float64 if ``exact``. Tensors share memory as they did."""
        memories = Counter(_memory(each) for _, each in _leaves((self.args, dict(self.kwargs))))
        shared: dict[Any, Tensor] = {memory: torch.empty(0) for memory, times in memories.items() if times > 1}
        return tree_map(partial(_leaf, exact=exact, shared=shared), (self.args, dict(self.kwargs)))


@dataclass(frozen=True)
class Subject:
    """A model, and the calls that are made of it one after another."""

    model: nn.Module
    calls: tuple[Call, ...]
    seed: int = 0

    def seen(self, how: Callable[[nn.Module], Callable[..., Any]], mode: Any = None, exact: bool = False) -> Values:
        """What the calls of ``how(model)`` show, for a copy of the model and of the batches, under a dispatch mode; all
        of them float64 if ``exact``."""
        model = self.copied()
        found: Values = {}
        for each in (*model.parameters(), *model.buffers()) if exact else ():
            each.data = widened(each.data)
        step = how(model)
        with contextlib.ExitStack() as undone:
            for number, call in enumerate(self.calls):
                if inspect.isgenerator(changing := call.before(model)):
                    next(changing, None)
                    undone.callback(next, changing, None)
                args, kwargs = call.given(exact)
                model.zero_grad()
                before = {name: each._version for name, each in model.named_parameters()}
                with drawn_from(self.seed + number), mode or contextlib.nullcontext():
                    outputs = step(*args, **kwargs)
                    ran_its_own = any(each.grad is not None for each in model.parameters())
                    if (wanted := differentiable(outputs)) and not ran_its_own:  # a whole step's graph is used up
                        torch.autograd.backward(wanted, tangents(wanted, self.seed + number))
                shown = dict(_shown(model, args, kwargs, outputs))
                changed = {name: each for name, each in model.named_parameters() if each._version > before[name]}
                shown |= {f"{name} afterwards": each for name, each in changed.items()}
                found |= {f"{name}{call.said}": _kept(value) for name, value in shown.items()}
        return found

    def first_outputs(self) -> Any:
        """What the first call returns in eager mode; nothing of the reader's is changed by it."""
        args, kwargs = self.calls[0].given()
        with drawn_from(self.seed):
            return self.copied()(*args, **kwargs)

    def draws(self) -> bool:
        """Whether some call takes random numbers from torch's generator."""
        drew = []

        def watched(model: nn.Module) -> Callable[..., Any]:
            def step(*args: Any, **kwargs: Any) -> Any:
                before = torch.get_rng_state()
                outputs = model(*args, **kwargs)
                drew.append(not torch.equal(torch.get_rng_state(), before))
                return outputs

            return step

        with torch.compiler.set_stance("force_eager"):
            self.seen(watched)
        return any(drew)

    def copied(self) -> nn.Module:
        """The model once more. TypeError for one that Python cannot copy."""
        try:
            with _sentinels_kept():
                return copy.deepcopy(self.model)
        except Exception as error:
            said = str(error).partition("\n")[0][:200]
            raise TypeError(
                f"a {type(self.model).__name__} cannot be copied ({type(error).__name__}: {said}), and each backend is "
                "given a copy: make what cannot be copied in forward, or leave it out"
            ) from error


@contextlib.contextmanager
def _sentinels_kept() -> Iterator[None]:
    """In here a copy of a plain ``object()`` is itself. All that code does with one is ``is``, often with a global or a
    class's attribute, which are not copied: with another object it would be another program (pytorch#196173)."""
    copyreg.dispatch_table[object] = lambda sentinel: "itself"
    try:
        yield
    finally:
        del copyreg.dispatch_table[object]


@contextlib.contextmanager
def drawn_from(seed: int) -> Iterator[None]:
    """Whatever draws random numbers in here, by torch, numpy or Python's ``random``, draws those of the seed; what is
    drawn afterwards is what would have been."""
    python, numpys = random.getstate(), numpy.random.get_state()
    with torch.random.fork_rng(_gpus()):
        torch.manual_seed(seed)
        random.seed(seed)
        numpy.random.seed(seed)
        try:
            yield
        finally:
            random.setstate(python)
            numpy.random.set_state(numpys)


def _gpus() -> list[int]:
    return [torch.cuda.current_device()] if torch.cuda.is_initialized() else []


def _memory(value: Any) -> Any:
    """What tensors that share their memory have in common; of anything else itself."""
    if not isinstance(value, Tensor) or value.layout != torch.strided or not value.numel():
        return id(value)
    return value.untyped_storage().data_ptr(), value.dtype


def _leaf(value: Any, exact: bool, shared: dict[Any, Tensor]) -> Any:
    """A copy; of memory that others share, the same part of one copy, which ``shared`` keeps."""
    if not isinstance(value, Tensor):
        return value
    copied, memory = value.detach(), _memory(value)
    if memory in shared:
        if not shared[memory].numel():
            whole = copied.untyped_storage().nbytes() // copied.element_size()
            shared[memory] = _copy(copied.as_strided((whole,), (1,), 0), exact)
        copied = shared[memory].as_strided(copied.shape, copied.stride(), copied.storage_offset())
    else:
        copied = _copy(copied, exact)
    return copied.requires_grad_(value.requires_grad)


def _copy(value: Tensor, exact: bool) -> Tensor:
    return widened(value.clone()) if exact else value.clone()


def _kept(value: Any) -> Any:
    """A copy of what is shown; a sparse gradient's numbers, wherever they are kept."""
    if not isinstance(value, Tensor):
        return value
    return (value.detach() if value.layout == torch.strided else value.detach().to_dense()).clone()


def differentiable(outputs: Any) -> list[Tensor]:
    """The results that have a gradient."""
    return [each for _, each in _leaves(outputs) if isinstance(each, Tensor) and each.requires_grad]


def tangents(outputs: list[Tensor], seed: int) -> list[Tensor]:
    """Random cotangents: of a layer norm's rows, for one, the sum hangs on nothing."""
    draw = torch.Generator().manual_seed(seed)
    dtypes = (torch.complex64 if each.is_complex() else torch.float32 for each in outputs)
    drawn = (torch.rand(each.shape, generator=draw, dtype=dtype) for each, dtype in zip(outputs, dtypes, strict=True))
    return [each.add(0.3).to(output) for each, output in zip(drawn, outputs, strict=True)]


def outputs_of(result: Any) -> dict[str, Any]:
    """A result's leaves, by the names that they have here."""
    return {f"output{path}": value for path, value in _leaves(result)}


def _leaves(tree: Any) -> list[tuple[str, Any]]:
    if dataclasses.is_dataclass(tree) and not isinstance(tree, type | Mapping):
        tree = {each.name: getattr(tree, each.name) for each in dataclasses.fields(tree)}
    return [(keystr(path), leaf) for path, leaf in tree_flatten_with_path(tree)[0]]


def _shown(model: nn.Module, args: Any, kwargs: Any, outputs: Any) -> Iterator[tuple[str, Any]]:
    for name, value in outputs_of(outputs).items():
        yield name, value
        if isinstance(value, Tensor):
            yield f"{FORM}{name}", (tuple(value.shape), value.dtype, value.requires_grad)
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            yield f"gradient of {name}", parameter.grad
    given = [(f"args{path}", each) for path, each in _leaves(args)]
    given += [(f"{name}{path}", each) for name, value in kwargs.items() for path, each in _leaves(value)]
    for name, value in given:
        if isinstance(value, Tensor):
            if value.requires_grad:
                yield f"gradient of {name}", value.grad
            yield f"{name} afterwards", value
    for name, buffer in model.named_buffers():
        yield f"buffer {name} afterwards", buffer


class Weighted(nn.Module):
    """A model whose result is one number, of which the gradient is that for random cotangents; and its outputs."""

    def __init__(self, model: nn.Module, outputs: Any, seed: int) -> None:
        super().__init__()
        self.model, self.tangents = model, tangents(differentiable(outputs), seed)

    def forward(self, *args: Any, **kwargs: Any) -> tuple[Tensor, ...]:
        outputs = self.model(*args, **kwargs)
        pairs = zip(differentiable(outputs), self.tangents, strict=True)
        loss = sum(((each * tangent).sum() for each, tangent in pairs), torch.zeros(()))
        return loss, *(each.detach() for _, each in _leaves(outputs) if isinstance(each, Tensor))
