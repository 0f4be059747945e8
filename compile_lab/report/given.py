"""The reader's own model, as it is handed over: a module, what it is called with, and what its loss is.

``given(model, batch)`` looks whether that can be trained, by one eager call; ``loaded("FILE:FUNCTION")`` finds both in
a file. What cannot be used is refused with an `UnusableModel` that names the input, the rule and the way out.
"""

import contextlib
import functools
import importlib.util
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import cloudpickle
import torch
from torch import Tensor, nn

from .._torch.dispatcher import among_fakes, fake_tensors
from .._torch.triton_kernels import kernels_interpreted
from ..dynamo.recompiles import described
from ..judge.function import FunctionModel, plain_function
from ..source import Line, readers_line
from ..tensors import gradients_kept, tensors
from .limits import PartTookTooLong
from .target import UnusableModel, named
from .whole_step import Kept, StepWatch, WholeStep

RULES = {
    "itself": "the model's result is the loss",
    "attribute": "the loss is the result's `.loss`",
    "key": "the loss is the result's `['loss']`",
    "mean": "the result holds no loss, so the mean of its first floating tensor stands for one",
}
"""What is taken for the loss, and how the report says it."""


PhaseOf = Callable[[str], AbstractContextManager[None]]
"""What is opened around each run of the reader's code, by the run's name: a limit, a word to whoever waits."""
MESSAGE_CHARACTERS = 300
_WAYS_OUT = (
    (PartTookTooLong, "give it longer with --limit-s, or make the model or its batch smaller"),
    (SystemExit, "it must come back: put what ends a script under `if __name__ == '__main__':`, or leave it out"),
    (EOFError, "nobody answers input() here: let it go on without an answer"),
    (MemoryError, "--fake builds a model of any size without memory"),
)


class LossOf(nn.Module):
    """A model whose result is reduced to its loss by one of `RULES`."""

    def __init__(self, model: nn.Module, rule: str) -> None:
        super().__init__()
        self.model, self.rule = model, rule

    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        return loss_of(self.model(*args, **kwargs), self.rule)


@dataclass(frozen=True)
class GivenModel:
    """A model and its batch. ``model`` is never the wrapper that torch.compile makes; ``was_compiled`` says if it was.

    ``optimizer`` is the reader's own, if one was handed over.
    """

    name: str
    model: nn.Module = field(repr=False)
    args: tuple[Any, ...] = field(repr=False)
    kwargs: Mapping[str, Any] = field(repr=False)
    rule: str
    was_compiled: bool = False
    optimizer: torch.optim.Optimizer | None = None
    unused: tuple[str, ...] = ()
    """Trained parameters that the loss does not hang on, as one eager backward says."""
    sparse: tuple[str, ...] = ()
    """Those whose gradient is sparse, as an embedding's may be."""
    makes_cache: bool = False
    """Whether the result holds keys and values for a generation, as a transformers model's may."""
    step: WholeStep | None = None
    """The whole step, where the reader handed over one: ``model`` is then a module that it calls, a part of it."""

    @property
    def loss(self) -> nn.Module:
        """What is differentiated: the model itself if its result is the loss, else the model in a `LossOf`."""
        return self.model if self.rule == "itself" else LossOf(self.model, self.rule)

    @property
    def fakes(self) -> AbstractContextManager[Any]:
        """What has to be entered to call the model: nothing, or what keeps new tensors as fake as its own."""
        return among_fakes((*self.model.parameters(), *tensors((self.args, dict(self.kwargs)))))

    @property
    def batch(self) -> str:
        """What the model is called with, in a few words."""
        return described(*self.args, **self.kwargs)

    def titled(self, title: str) -> str:
        """A parameter's path as the reader's own model has it."""
        return title if self.rule == "itself" else title.removeprefix("model.")


def loss_of(result: Any, rule: str) -> Tensor:
    """The loss in a model's result, float and of one number."""
    match rule:
        case "itself":
            return result
        case "attribute":
            return result.loss
        case "key":
            return result["loss"]
        case _:
            return next(each for each in tensors(_plain(result)) if each.is_floating_point()).float().mean()


def raised(error: BaseException) -> str:
    """An exception in a line, and where in the reader's code: ``KeyError: 'x', at my_file.py, line 3``."""
    try:
        said = (str(error).strip().splitlines() or [""])[0][:MESSAGE_CHARACTERS]
    except BaseException:  # its own words are the reader's code, too
        said = ""
    kind = type(error).__name__
    frames = [Line(frame.f_code.co_filename, number) for frame, number in traceback.walk_tb(error.__traceback__)]
    line = readers_line(reversed(frames))
    at = f", at {line}" if line else ""
    said = said.rstrip(".") if at else said
    return f"{kind}: {said}{at}" if said else f"{kind}{at}"


def way_out(error: BaseException, otherwise: str) -> str:
    """What to do about an exception of the reader's code, if its kind says so."""
    return next((todo for kind, todo in _WAYS_OUT if isinstance(error, kind)), otherwise)


def no_phase(name: str) -> AbstractContextManager[None]:
    """No limit, and nobody waits."""
    return contextlib.nullcontext()


@contextlib.contextmanager
def _run(phase: PhaseOf, name: str, failed: str, todo: str) -> Iterator[None]:
    """A run of the reader's code. All that it raises is an UnusableModel, an exit too; only Control-C is passed on."""
    try:
        with phase(name), kernels_interpreted():
            yield
    except (KeyboardInterrupt, UnusableModel):
        raise
    except PartTookTooLong as error:
        why = raised(error).removeprefix("PartTookTooLong: it ")
        raise UnusableModel(f"{name} {why}; {way_out(error, todo)}") from error
    except BaseException as error:
        raise UnusableModel(f"{failed} {raised(error)}; {way_out(error, todo)}") from error


def _eagerly() -> AbstractContextManager[None]:
    """Parts that the reader compiles run eagerly, too."""
    return torch.compiler.set_stance("force_eager")


def given(model: Any, batch: Any, optimizer: Any = None, name: str = "", phase: PhaseOf = no_phase) -> GivenModel:
    """The model with its batch, after one eager call of it, forward and backward, each of them in a ``phase``.

    ``model`` may be a function, too, that returns a loss, or that is a whole step and returns none. UnusableModel for
    what cannot be trained so.
    """
    if not isinstance(model, nn.Module) and callable(model) and not isinstance(model, type):
        return _given_function(model, batch, optimizer, name, phase)
    if not isinstance(model, nn.Module):
        raise UnusableModel(f"model is a {type(model).__name__}; it must be a torch.nn.Module or a function")
    if optimizer is not None and not isinstance(optimizer, torch.optim.Optimizer):
        kind = type(optimizer).__name__
        raise UnusableModel(f"the third thing returned is a {kind}; it must be a torch.optim.Optimizer, or be left out")
    plain = getattr(model, "_orig_mod", model)
    args, kwargs = _called_with(batch, needs_tensors=not isinstance(plain, FunctionModel))
    if isinstance(plain, FunctionModel) and not any(True for _ in plain.parameters()):
        raise UnusableModel(
            f"{name} uses no module with parameters, as far as its closure, its globals and its arguments tell; hand "
            "over a function that names the torch.nn.Module it trains, or the module"
        )
    if not any(parameter.requires_grad for parameter in plain.parameters()):
        raise UnusableModel("no parameter of the model has requires_grad=True, so there is no training step to look at")
    if any(each.is_meta for each in (*plain.parameters(), *tensors((args, kwargs)))):
        # AOTAutograd leaves out what it finds on "meta": its joint graph would be of one operation, and look right.
        raise UnusableModel(
            "the model or its batch is on the meta device; build both on the CPU; with --fake they take no memory"
        )
    fakes = among_fakes((*plain.parameters(), *tensors((args, kwargs))))
    failed = f"the model refused its batch ({described(*args, **kwargs)}):"
    todo = "the batch must be what model(**batch) takes if it is a dict, model(*batch) if a tuple, model(batch) else"
    kept, parameters = Kept(plain), dict(plain.named_parameters())
    try:
        with _run(phase, "the first forward", failed, todo), fakes, torch.enable_grad(), _eagerly():
            result = plain(*args, **kwargs)
        rule = _rule(result)
        failed, todo = "the backward of the loss raised", "it must run in eager mode first"
        with _run(phase, "the first backward", failed, todo), fakes, _eagerly():  # a checkpoint calls parts again
            unused, sparse = _gradients(plain, parameters, loss_of(result, rule), RULES[rule])
    finally:
        with fakes:
            kept.restore()
    cache = getattr(result, "past_key_values", None) is not None
    name = name or type(plain).__name__
    return GivenModel(name, plain, args, kwargs, rule, plain is not model, optimizer, unused, sparse, cache)


def _given_function(fn: Callable[..., Any], batch: Any, optimizer: Any, name: str, phase: PhaseOf) -> GivenModel:
    """A function that returns a loss, as a module of what it uses; or one that is a step, and a module of that."""
    plain, name = plain_function(fn), name or _named(fn)
    args, kwargs = _called_with(batch, needs_tensors=False)
    model = FunctionModel(plain)
    watch = StepWatch(model)
    todo = "the batch must be what it is called with: a tuple, a dict of keyword arguments, `()` for none"
    with _run(phase, "the first run", f"{name} raised", todo), torch.enable_grad(), _eagerly(), watch.watching():
        plain(*args, **kwargs)
    if not watch.backwards:
        return replace(given(model, args or kwargs, optimizer, name, phase), was_compiled=plain is not fn)
    step = watch.step(name, functools.partial(plain, *args, **kwargs))
    if not (main := step.main):
        raise UnusableModel(
            f"{name} runs a backward and calls no module with trained parameters under a gradient, so there is no "
            "graph to look at: let it call a torch.nn.Module"
        )
    part = given(main.module, main.args or dict(main.kwargs), None, f"{main.name} in {name}", phase)
    own = set(main.module.parameters())
    its = (each for each in step.optimizers if own & {p for group in each.param_groups for p in group["params"]})
    return replace(part, step=step, optimizer=next(its, None))


def loaded(target: str, fake: bool = False, phase: PhaseOf = no_phase) -> GivenModel:
    """The model and batch that ``FILE:FUNCTION`` returns, as `returned` has them, given."""
    model, batch, optimizer, name = returned(target, fake, phase)
    return given(model, batch, optimizer, name, phase)


def returned(target: str, fake: bool = False, phase: PhaseOf = no_phase) -> tuple[Any, Any, Any, str]:
    """The model and batch that ``FILE:FUNCTION`` returns, its optimizer if there is one, and the model's name.
    UnusableModel says what is wrong with file or function.

    With ``fake`` the function is called under fake tensors, so that a model of any size takes no memory. ``phase`` is
    opened around each run of the file's code.
    """
    function, file = _found(target, phase)
    called = f"{file.name}:{target.rpartition(':')[2]}()"
    todo = "it is called without arguments and must return a model and a batch"
    with _run(phase, called, f"{called} raised", todo), fake_tensors() if fake else contextlib.nullcontext():
        made = function()
    if not isinstance(made, tuple) or len(made) not in (2, 3):
        raise UnusableModel(
            f"{called} returned {type(made).__name__}; it must return (model, batch), or (model, batch, optimizer)"
        )
    model, batch, optimizer = (*made, None)[:3]
    return model, batch, optimizer, f"{_named(model)} of {file.name}"


def _named(model: Any) -> str:
    plain = getattr(model, "_orig_mod", model)
    return getattr(plain, "__name__", type(plain).__name__)


def _gradients(
    model: nn.Module, before: Mapping[str, nn.Parameter], loss: Tensor, result: str
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The trained parameters that get no gradient, and those that get a sparse one. No ``.grad`` is touched.

    ``before`` are those that there were before the forward: FSDP2 puts others in their place until the backward.
    """
    if not loss.requires_grad:
        raise UnusableModel(f"{result}, and it needs no gradient: return a loss that hangs on the parameters")
    trained = [each for each in (*model.named_parameters(), *before.items()) if each[1].requires_grad]
    found: dict[str, Tensor | None] = {}
    with gradients_kept(each for _, each in trained):
        loss.backward()  # as a loop runs it: some of torch's checkpoints refuse `torch.autograd.grad`
        for name, each in trained:
            found[name] = each.grad if found.get(name) is None else found[name]
    unused = tuple(name for name, gradient in found.items() if gradient is None)
    return unused, tuple(name for name, each in found.items() if each is not None and each.layout != torch.strided)


def _called_with(batch: Any, needs_tensors: bool = True) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(batch, Mapping):
        if wrong := [key for key in batch if not isinstance(key, str)]:
            raise UnusableModel(f"the batch is a dict with the key {wrong[0]!r}; keys are the names of arguments")
        args, kwargs = (), dict(batch)
    else:
        args, kwargs = tuple(batch) if isinstance(batch, tuple | list) else (batch,), {}
    if needs_tensors and not tensors((args, kwargs)):
        raise UnusableModel(
            f"the batch is a {type(batch).__name__} without a tensor; give what the model is called with"
        )
    return args, kwargs


def _rule(result: Any) -> str:
    if isinstance(result, Tensor) and result.ndim == 0:
        return "itself"
    if isinstance(result, Mapping) and isinstance(result.get("loss"), Tensor) and not hasattr(result, "loss"):
        return "key"
    if isinstance(getattr(result, "loss", None), Tensor):
        return "attribute"
    if any(each.is_floating_point() for each in tensors(_plain(result))):
        return "mean"
    raise UnusableModel(f"the model's result is a {type(result).__name__} without a floating tensor: return its loss")


def _plain(result: Any) -> Any:
    """A result of which a tree can be made: some libraries return mappings of their own."""
    return dict(result) if isinstance(result, Mapping) else result


def function_of(target: str, phase: PhaseOf = no_phase) -> Callable[..., Any]:
    """The function that ``FILE:FUNCTION`` names; its file is run for it. UnusableModel if there is none."""
    return _found(target, phase)[0]


def _found(target: str, phase: PhaseOf) -> tuple[Callable[..., Any], Path]:
    file, name = named(target)  # before the file is run: it may go to another folder
    return _function(_module(file, phase), name, file), file


def _function(module: ModuleType, name: str, file: Path) -> Callable[[], Any]:
    function = getattr(module, name, None)
    if not callable(function):
        known = ", ".join(key for key, value in vars(module).items() if _is_own(value, module)) or "none"
        raise UnusableModel(f"{file.name} has no function {name!r}; its functions are: {known}")
    return function


def _is_own(value: Any, module: ModuleType) -> bool:
    return callable(value) and not isinstance(value, type) and getattr(value, "__module__", "") == module.__name__


def _module(path: Path, phase: PhaseOf) -> ModuleType:
    """The file as a module; files beside it can be imported. It travels to the virtual GPU by value."""
    name = path.stem if path.stem not in sys.modules and path.stem.isidentifier() else f"given_{abs(hash(path)):x}"
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    assert spec is not None and spec.loader is not None  # of a file that ends in .py
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    todo = f"it must run to its end, as in python {path.name}"
    try:
        with _run(phase, f"the import of {path.name}", f"{path.name} cannot be imported:", todo):
            spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    cloudpickle.register_pickle_by_value(module)
    return module
