"""What a report tries on a given model: other batches and modes, learning rates, autocast, registers, many devices.

Each is a plain function of the model; the state of the model (its mode, its gradients) is afterwards what it was.
"""

import contextlib
import copy
import inspect
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from .._torch.dispatcher import without_fakes
from .._torch.dynamo import reset_dynamo
from ..capture import Recompiled, compilation
from ..devices.collectives import Program, counted, held_here, pretended
from ..dynamo.recompiles import watch
from ..dynamo.tracing import Kept, keeping, quiet
from ..inductor.generated import GeneratedCode
from ..precision.casts import TypedTrace, dtypes
from ..simulator.collectives import Collective, Held
from ..tensors import tensors
from ..virtual_gpu.assembly import assemble
from ..virtual_gpu.client import run
from .given import GivenModel, loss_of

PATTERNS = ("ddp", "fsdp")
LARGEST_KERNELS = 5
NOT_TRIED = "not tried"


@dataclass(frozen=True)
class Tried:
    """One change of the call: what became of it, and the guards that failed. ``outcome`` as in ``WatchedCall``, or
    "refused" if the model does not take such a call eagerly either, or "not tried" where time was over."""

    change: str
    call: str
    outcome: str
    failed: tuple[str, ...]

    @property
    def compiled_again(self) -> bool:
        return self.outcome == "compiled"


@dataclass(frozen=True)
class Registers:
    """What a kernel takes of a chip: registers a thread, spilled bytes a thread, warps that a multiprocessor holds."""

    registers: int | None
    spills: int | None
    warps: int | None


@dataclass(frozen=True)
class OnDevices:
    """A step on ``devices``: what one of them holds, and what it sends."""

    pattern: str
    devices: int
    held: Held
    sent: tuple[Collective, ...]
    wrapped: int
    """How many parts were sharded one by one, the whole included; 0 where nothing is sharded."""


def tried(given: GivenModel, seconds: float = math.inf) -> tuple[Tried, ...]:
    """The call as it is, then with other batch sizes, another length, in eval mode and in training mode again.

    Each change compiles anew or is answered by what was compiled; after so many seconds none is begun any more.
    """
    watched, until = watch(given.model), time.perf_counter() + seconds
    found: list[Tried] = []
    try:
        with _modes_kept(given.model):
            for change, training, cut in _changes(given):
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


def _one(watched: Any, given: GivenModel, change: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tried:
    made = len(watched.calls)
    try:
        with torch.no_grad():
            given.model(*args, **kwargs)
    except Exception as error:  # not torch.compile's doing: the model itself takes no such call
        return Tried(change, type(error).__name__, "refused", ())
    with contextlib.suppress(Exception):  # the call's own outcome says that it raised
        watched(*args, **kwargs)
    if len(watched.calls) == made:
        return Tried(change, "", "could not be asked", ())
    call = watched.calls[made]
    return Tried(change, call.arguments, call.outcome, call.failed)


def _changes(given: GivenModel) -> Iterator[tuple[str, bool | None, Callable[[Tensor], Tensor] | None]]:
    rows, length = _batch_size(given), _length(given)
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


def _batch_size(given: GivenModel) -> int:
    return next((each.shape[0] for each in tensors((given.args, given.kwargs)) if each.ndim), 0)


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
def _modes_kept(model: nn.Module) -> Iterator[None]:
    modes = {module: module.training for module in model.modules()}
    try:
        yield
    finally:
        for module, training in modes.items():
            module.training = training


def learning_rates(optimizer: torch.optim.Optimizer | None) -> tuple[str, tuple[bool, ...]]:
    """If the optimizer's step is compiled, is it compiled again when the learning rate changes? Tried four times.

    On a parameter of four numbers with an optimizer of the same class and defaults, AdamW's own without one; the
    first answer is of the first change. Returns the class's name and the answers.
    """
    kind = type(optimizer) if optimizer else torch.optim.AdamW
    takes = inspect.signature(kind.__init__).parameters  # some keep among their defaults what they do not take
    defaults = {name: value for name, value in optimizer.defaults.items() if name in takes} if optimizer else {}
    if optimizer:
        rate = optimizer.param_groups[0]["lr"]
        defaults["lr"] = rate.clone() if isinstance(rate, Tensor) else rate
    with without_fakes():
        return kind.__name__, _rates_that_compile(kind, defaults)


def _rates_that_compile(kind: type[torch.optim.Optimizer], defaults: dict[str, Any]) -> tuple[bool, ...]:
    parameter = nn.Parameter(torch.ones(4))
    parameter.grad = torch.ones(4)
    small = kind([parameter], **defaults)
    kept: list[Kept] = []
    again = []
    reset_dynamo()
    try:
        with quiet(), compilation() as log:
            step = torch.compile(small.step, backend=keeping(kept))
            step()
            step()  # the state is there only from the second step on
            for factor in (0.5, 0.3, 0.2, 0.1):
                before = len(log.of(Recompiled))
                for group in small.param_groups:
                    _set_rate(group, factor * float(group["lr"]))
                step()
                again.append(len(log.of(Recompiled)) > before)
    finally:
        reset_dynamo()
    return tuple(again)


def _set_rate(group: dict[str, Any], rate: float) -> None:
    """As a scheduler does: a tensor is filled, a number replaced."""
    if isinstance(group["lr"], Tensor):
        group["lr"].fill_(rate)
    else:
        group["lr"] = rate


def autocast_trace(given: GivenModel, chip: str) -> TypedTrace:
    """The dtypes of every operation of a step under bf16 autocast, as a GPU's dispatcher decides them."""
    return run(chip, _autocast, given.loss, given.args, dict(given.kwargs))


def _autocast(loss: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> TypedTrace:
    def step() -> Tensor:
        with torch.autocast("cuda", torch.bfloat16):
            return loss(*args, **kwargs)

    return dtypes(step, model=loss)


def registers(code: GeneratedCode) -> Mapping[str, Registers]:
    """Registers, spills and warps of the kernels that move most bytes, by their names."""
    largest = sorted(code.written, key=lambda kernel: -kernel.nbytes)[:LARGEST_KERNELS]
    found = {}
    for kernel in largest:
        made = assemble(kernel, code.chip)
        warps = made.occupancy.warps if made.occupancy else None
        found[kernel.name] = Registers(made.registers, made.spills, warps)
    return found


def on_devices(given: GivenModel, devices: int, pattern: str) -> OnDevices:
    """What a device holds and sends: the real step under DDP or FSDP2, as on one of so many imaginary devices."""
    with pretended(devices):
        program, wrapped = _parallel(given, devices, pattern)
        sent = counted(program, warm_up=1)
        for parameter in program.modules[0].parameters():
            parameter.grad = None
        return OnDevices(pattern, devices, held_here(program), sent, wrapped)


def _blocks(module: nn.Module) -> Iterator[nn.Module]:
    """The members of the outermost lists of modules: lists inside a block belong to that block."""
    for child in module.children():
        yield from child if isinstance(child, nn.ModuleList) else _blocks(child)


def _parallel(given: GivenModel, devices: int, pattern: str) -> tuple[Program, int]:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.nn.parallel import DistributedDataParallel

    with without_fakes():
        mesh = init_device_mesh("cpu", (devices,), mesh_dim_names=("replicate" if pattern == "ddp" else "shard",))
    fakes, wrapped = given.fakes, 0
    model = copy.deepcopy(given.model, {id(fakes): fakes})  # fakes of another kind would not go with those of the batch
    if pattern == "ddp":
        model = DistributedDataParallel(model)
    else:
        blocks = [block for block in _blocks(model) if any(True for _ in block.parameters())]
        scalars = {each for each in model.parameters() if not each.ndim}  # which FSDP2 refuses, and which stay whole
        for block in blocks:
            fully_shard(block, mesh=mesh, ignored_params=scalars)
        fully_shard(model, mesh=mesh, ignored_params=scalars)
        wrapped = len(blocks) + 1

    def step() -> None:
        loss_of(model(*given.args, **given.kwargs), given.rule).backward()

    return Program(step, [model], mesh), wrapped
