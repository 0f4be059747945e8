"""``gradients(model, batch)``: is what compiled code computes rounding, or wrong?

The unit is measured and not guessed: the eager program runs a few times with every operand of every operation, forward
and backward, moved by up to one ulp at random. How far that moves an element is what rounding may move it by: far where
a sum cancels, nowhere where indices are computed. An error of many such units is no rounding.
"""

import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from .._torch.dynamo import compiled_anew, dynamo_config
from .._torch.inductor import inductor_config
from ..capture import NotCompiledError, compilation
from ..doors import PrintedRepr, check_whole, door
from ..dynamo.tracing import quiet
from ..inductor.generated import GeneratedCode, generated_code
from ..inductor.wrapper import Wrapper
from ..known_faults import KNOWN_FAULTS
from ..virtual_gpu.chips import chip as chip_named
from ..virtual_gpu.client import interpret
from ..virtual_gpu.errors import VirtualGPUError
from .function import FunctionModel, plain_function
from .modes import Exactly, Jitter, widened
from .seen import FORM, Call, Subject, Values, Weighted, outputs_of

BACKENDS = ("aot_eager", "inductor")
MOST_NAMED = 8
MOVED = 4
"""Runs of the eager program with operands that are moved."""
WRONG = 64.0
"""Units from which on a difference is no rounding. Rounding has been seen up to 53, in steps of AdamW."""
DWARFED, SHARE = 100.0, 1e-3
"""Where moving operands by an ulp moves a result so many times as far as eager is from exact, and by such a share of
its size, the program decides something by its last bit (a bucket, a largest element): that is not compared. Where
eager is as far from exact itself, as in the floor of a softmax's sum (pytorch#189787), either answer is rounding."""
DRAWN = (
    "not judged: kernels that draw random numbers themselves; here aten draws them for every side (`fallback_random`), "
    "so that all draw the same"
)
SWITCHES = tuple(dict.fromkeys(each.option for each in KNOWN_FAULTS))
"""Passes of Inductor's that are turned off, one by one, where its code for a chip is wrong."""


@dataclass(frozen=True)
class Verdict:
    """What one backend made of the calls: the error of each result in units of rounding, infinite where it differs in
    more than a number. ``raised`` is its error, if it raised one that eager does not; ``cure`` a switch that helps.
    ``tolerances``: by another ruler, the least t with which ``torch.allclose(…, rtol=t, atol=t)`` calls it right."""

    backend: str
    units: Mapping[str, float] = field(repr=False)
    raised: str = ""
    cure: str = ""
    seconds: float = 0.0
    tolerances: Mapping[str, float] = field(default_factory=dict, repr=False)

    @property
    def wrong(self) -> tuple[str, ...]:
        """The results that are no rounding of the exact ones."""
        return tuple(name for name, units in self.units.items() if units > WRONG)

    def __str__(self) -> str:
        if self.raised:
            return f"{self.backend}: raises {self.raised}"
        if self.wrong:
            cure = f"; right with {self.cure}" if self.cure else ""
            return f"{self.backend}: WRONG in {listed(self.wrong)}{cure}"
        if not self.units:
            return f"{self.backend}: nothing of it could be compared"
        worst = max(self.units, key=self.units.__getitem__)
        return f"{self.backend}: right, at most {self.units[worst]:.1f} units off ({worst})"


@dataclass(frozen=True, repr=False)
class Judged(PrintedRepr):
    """The verdicts on a model's calls, and why some results could not be judged, by name. ``drawn``: the calls take
    random numbers, so some kernels of theirs were not judged."""

    verdicts: tuple[Verdict, ...]
    refused: Mapping[str, str]
    drawn: bool = False

    @property
    def wrong(self) -> tuple[str, ...]:
        """The names of all results that some backend has wrong; empty when all is right."""
        return tuple(dict.fromkeys(name for each in self.verdicts for name in each.wrong))

    def __str__(self) -> str:
        reasons: dict[str, list[str]] = {}
        for name, why in self.refused.items():
            reasons.setdefault(why, []).append(name)
        refused = [f"not compared: {listed(names)}, since {why}" for why, names in reasons.items()]
        return "\n".join([*map(str, self.verdicts), *refused, *[DRAWN] * self.drawn])


@door
def gradients(
    model: Callable[..., Any],
    batch: Any,
    *,
    chip: str | None = None,
    change: Callable[[nn.Module], Any] | None = None,
    again: Any = None,
    seed: int = 0,
) -> Judged:
    """Are outputs, gradients, and inputs and buffers afterwards right when ``model`` is compiled?

    ``model`` is a module or a function, also a whole step with backwards and optimizers of its own; ``batch`` what it
    is called with: a dict of keyword arguments, a tuple, or a tensor. It is called twice, since some faults show only
    then: the second time with ``again``, another batch, if it is given, and after ``change(model)``, done to each
    backend's copy (of a function: to a module that calls it). What it changes outside the copy, as the code of a class,
    lasts for the next backend: a generator undoes that after its ``yield``. A backend whose code did not run is
    refused, and so is a program that does not run in float64. Gradients are those for random cotangents, or the step's
    own.

    Judged are the backends "aot_eager" and "inductor" on this machine, and with a ``chip`` the code that Inductor
    writes for it: whether it returns memory that nothing has written, and what its kernels compute in Triton's
    interpreter, which takes a minute for a block. The model itself, its gradients and the batch stay as they are.
    Each call draws the same random numbers, by torch's generator, numpy's or Python's; aten draws torch's, on every
    side, so that kernels which would draw their own are not judged, and the answer says so.

    Raises ValueError for a chip that is not known, and what the model itself raises in eager mode.

    >>> import torch
    >>> from compile_lab.judge import gradients
    >>> gradients(torch.nn.Linear(4, 2), torch.ones(3, 4)).wrong
    ()
    """
    check_whole("seed", seed, 0)
    if chip:
        chip_named(chip)
    subject = subject_of(model, batch, change, seed, again)
    try:
        units, refused = units_of(subject)
    except NotExactError as error:
        return Judged((), {"any result": str(error)})
    asked = {backend: partial(verdict_of, backend, subject, units) for backend in BACKENDS}
    if chip:
        asked[f"inductor for a virtual {chip}"] = partial(_for_chip, chip, subject, units)
    verdicts = []
    for backend, ask in asked.items():
        try:
            verdicts.append(ask())
        except (NotCompiledError, VirtualGPUError) as error:  # what was not seen is not judged
            refused[backend] = in_a_line(error)
    return Judged(tuple(verdicts), refused, subject.draws())


class NotExactError(RuntimeError):
    """The program runs, and not in float64, or not with its operands moved: what is exact, cannot be told."""


def subject_of(
    model: Any, batch: Any, change: Callable[[nn.Module], Any] | None, seed: int, again: Any = None
) -> Subject:
    module = model if isinstance(model, nn.Module) else FunctionModel(plain_function(model))
    module = getattr(module, "_orig_mod", module)
    second = batch if again is None else again
    change = change or (lambda copied: None)
    return Subject(module, (Call(*_called_with(batch)), Call(*_called_with(second), change, " (second call)")), seed)


def _called_with(batch: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(batch, Mapping):
        return (), dict(batch)
    return tuple(batch) if isinstance(batch, tuple | list) else (batch,), {}


def units_of(subject: Subject) -> "tuple[dict[str, _Unit], dict[str, str]]":
    """What rounding may do to each result of a subject, and why that cannot be told of the others. NotExactError if the
    program runs, and not exactly; what it raises itself, if it does not run."""
    with torch.compiler.set_stance("force_eager"):  # what the reader compiles is no measure of itself
        eager = subject.seen(_itself)
        try:
            exact = subject.seen(_itself, Exactly(), exact=True)
            moved = [subject.seen(_itself, Jitter(subject.seed + number)) for number in range(MOVED)]
        except Exception as error:
            raise NotExactError(f"the program runs, and not in float64: {in_a_line(error)}") from error
    units = {name: _Unit.of(exact.get(name), eager[name], [each.get(name) for each in moved]) for name in eager}
    refused = {name: unit.refused for name, unit in units.items() if unit.refused}
    return {name: unit for name, unit in units.items() if not unit.refused}, refused


def _itself(model: nn.Module) -> nn.Module:
    return model


@dataclass(frozen=True)
class _Unit:
    """What rounding may do to one result: ``exact`` and ``noise`` element by element, or why that cannot be told."""

    eager: Any
    exact: Any = None
    noise: Tensor | None = None
    refused: str = ""

    @classmethod
    def of(cls, exact: Any, eager: Any, moved: list[Any]) -> "_Unit":
        if not isinstance(eager, Tensor):
            steady = all(_same(each, eager) for each in moved)
            return cls(eager, refused="" if steady else "moving operands by an ulp changes it")
        if any(not isinstance(each, Tensor) or each.shape != eager.shape for each in (exact, *moved)):
            return cls(eager, refused="its shape hangs on the last bit of some number")
        if not (eager.is_floating_point() or eager.is_complex()):
            steady = all(torch.equal(each, eager) for each in moved)
            return cls(eager, refused="" if steady else "moving operands by an ulp changes it, and it is no rounding")
        wide = exact if exact.is_complex() else exact.double()
        off = (eager - wide).abs().double()
        noise = torch.stack([(each - wide).abs().double() for each in moved])
        if noise.isnan().any() or off.isnan().any():
            same = all(torch.equal(each.isnan(), eager.isnan()) for each in moved)
            if not same:
                return cls(eager, refused="it is a number in one run and none in another")
            noise, off = noise.nan_to_num(0, 0, 0), off.nan_to_num(0, 0, 0)
        size = wide.abs().double().nan_to_num(0, 0, 0)
        if _mean(size) and _mean(noise) > DWARFED * _mean(off) and _mean(noise) > SHARE * _mean(size):
            return cls(eager, refused="it hangs on the last bit of some number: a bucket, a largest element")
        eps = torch.finfo(eager.dtype).eps
        wander = torch.stack([(each - eager).abs().double() for each in moved]).nan_to_num(0, 0, 0)
        if _mean(off) > DWARFED * min(_mean(wander), _mean(noise)) + max(SHARE, eps) * _mean(size):
            why = (
                "in float64 it is another thing: it hangs on its dtype, or on what the program keeps outside the model"
            )
            return cls(eager, refused=why)
        spread = torch.cat([noise, off[None]]).square().mean(0).sqrt()
        floor = eps * (size + 1e-2 * _mean(size)) + torch.finfo(torch.float32).tiny
        return cls(eager, exact, _at_least_its_neighbours(spread) + floor)

    def units(self, made: Any) -> float:
        """How far a result is off; infinite where it is another kind of thing."""
        if not isinstance(self.eager, Tensor) or not isinstance(made, Tensor):
            return 0.0 if _same(made, self.eager) else math.inf
        if (made.shape, made.dtype) != (self.eager.shape, self.eager.dtype):
            return math.inf
        if self.noise is None:
            return 0.0 if torch.equal(made, self.eager) else math.inf
        off = (made - self.exact).abs().double()
        if not torch.equal(made.isfinite(), self.eager.isfinite()):
            return math.inf
        return float((off / self.noise).nan_to_num(0, 0, 0).max()) if off.numel() else 0.0


def tolerance_needed(made: Any, eager: Any) -> float:
    """The least t with which ``torch.allclose(made, eager, rtol=t, atol=t)`` holds; infinite if none is."""
    if not isinstance(eager, Tensor) or not isinstance(made, Tensor):
        return 0.0 if _same(made, eager) else math.inf
    if (made.shape, made.dtype) != (eager.shape, eager.dtype) or not torch.equal(made.isfinite(), eager.isfinite()):
        return math.inf
    if not (eager.is_floating_point() or eager.is_complex()):
        made, eager = made.double(), eager.double()
    made, eager = (widened(each).nan_to_num(0, 0, 0) for each in (made, eager))
    return float(((made - eager).abs() / (1 + eager.abs())).max()) if eager.numel() else 0.0


def _same(one: Any, other: Any) -> bool:
    """Of values that are no tensors; what cannot be compared is the same if it is of one kind."""
    if type(one) is not type(other):
        return False
    try:
        return bool(one == other) or type(one).__eq__ is object.__eq__  # type: ignore[comparison-overlap]  # of any class
    except Exception:
        return True


def _mean(values: Tensor) -> float:
    return float(values.mean()) if values.numel() else 0.0


def _at_least_its_neighbours(noise: Tensor) -> Tensor:
    """An element's own noise is of few draws and may be small by chance: a quarter of its row's, and of its column's,
    it is at least."""
    own = noise
    for axis in range(noise.ndim):
        if noise.shape[axis] > 3:
            own = torch.maximum(own, 0.25 * noise.square().mean(axis, keepdim=True).sqrt())
    return own


def verdict_of(backend: str, subject: Subject, units: Mapping[str, _Unit]) -> Verdict:
    begun = time.perf_counter()
    try:
        with (
            compiled_anew(),
            quiet(),
            compilation(use_caches=True) as log,  # kernels and headers that are built already: no graph is found again
            inductor_config.patch({"fallback_random": True, "fx_graph_cache": False}),
            dynamo_config.patch(use_numpy_random_stream=True),
        ):
            made: Values = subject.seen(lambda model: torch.compile(model, backend=backend))
        log.require_compiled()
    except NotCompiledError:
        raise
    except Exception as error:
        return Verdict(backend, {}, in_a_line(error), seconds=time.perf_counter() - begun)
    found = {name: unit.units(made[name]) if name in made else math.inf for name, unit in units.items()}
    found = {name: off for name, off in found.items() if off or not name.startswith(FORM)}
    needed = {name: tolerance_needed(made.get(name), unit.eager) for name, unit in units.items()}
    return Verdict(backend, found, seconds=time.perf_counter() - begun, tolerances=needed)


def _for_chip(chip: str, subject: Subject, units: Mapping[str, _Unit]) -> Verdict:
    """Inductor's code for a chip, at the first call: what it returns and nothing has written; else what its kernels
    compute, by Triton's interpreter. With the switch that fixes it, if one does. Raises VirtualGPUError."""
    begun = time.perf_counter()
    look: Callable[..., dict[str, float]] = _unwritten
    if not (found := look(chip, subject)):
        look = partial(_interpreted, units=units)
        found = look(chip, subject)
    cure = next((each for each in SWITCHES if _wrong(found) and _fixes(each, look, chip, subject)), "")
    cure = cure and f"`torch._inductor.config.{cure} = False`"
    return Verdict(f"inductor for a virtual {chip}", found, cure=cure, seconds=time.perf_counter() - begun)


def _wrong(found: Mapping[str, float]) -> bool:
    return any(units > WRONG for units in found.values())


def _fixes(switch: str, look: Callable[..., dict[str, float]], chip: str, subject: Subject) -> bool:
    try:
        return not _wrong(look(chip, subject, **{switch: False}))
    except VirtualGPUError:  # what has been found stands, without a cure
        return False


def _unwritten(chip: str, subject: Subject, **options: Any) -> dict[str, float]:
    model, call = subject.copied(), subject.calls[0]
    code = generated_code(model, *call.args, chip=chip, options=options or None, **dict(call.kwargs))
    return {f"{each}, which nothing writes": math.inf for each in unwritten_results(code, model)}


def unwritten_results(code: GeneratedCode, model: nn.Module) -> tuple[str, ...]:
    """What Inductor's code returns and never writes, as ``gradient of table, [1, 4, 768]``: the parameters of the model
    that have its shape. A result without elements is none."""
    found = []
    for graph in code.graphs:
        buffers = {buffer.name: buffer for buffer in graph.buffers}
        for name in Wrapper.of(graph.wrapper).unwritten:
            shape = list(buffers[name].shape) if name in buffers else []
            named = [title for title, each in model.named_parameters() if list(each.shape) == shape]
            what = f"gradient of {' or '.join(named)}" if named and graph.direction == "backward" else f"result {name}"
            found += [f"{what}, {shape}"] if 0 not in shape else []
    return tuple(found)


def _interpreted(chip: str, subject: Subject, units: Mapping[str, _Unit], **options: Any) -> dict[str, float]:
    """How far outputs and gradients of the first call are off, by the names that `Subject.seen` gives them."""
    outputs, (args, kwargs) = subject.first_outputs(), subject.calls[0].given()
    weighted = Weighted(subject.copied(), outputs, subject.seed)
    made = interpret(weighted, *args, chip=chip, config=options, seed=subject.seed, **kwargs)
    tensors = [name for name, value in outputs_of(outputs).items() if isinstance(value, Tensor)]
    found: Values = dict(zip(tensors, made.outputs[1:], strict=True))
    for name, gradient in made.gradients.items():
        own = _KEYWORD.sub(r"\1", name.removeprefix("model."))
        found[f"gradient of {own}"] = gradient
    return {name: units[name].units(value) for name, value in found.items() if name in units}


_KEYWORD = re.compile(r"^kwargs\['(\w+)'\]")


def listed(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    more = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def in_a_line(error: BaseException) -> str:
    first, *rest = [each for each in str(error).strip().splitlines() if each.strip()] or [""]
    told = f"{first} {rest[0].strip()}" if rest and first.endswith(":") else first
    return f"{type(error).__name__}: {told[:200]}"
