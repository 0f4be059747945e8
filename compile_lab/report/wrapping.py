"""How a model is wrapped when it is handed over: tensor parallel, checkpoints, compile, FSDP2, DDP, and in which order.

The order is that of nesting: what stands inside was applied first. That is all that the outcome depends on; what leaves
no trace of its time (``module.compile()`` and ``fully_shard`` both change a module in its place) is said to have none.
The verdicts are those of the book's chapter on where to compile, which ran these orders on real processes.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from torch import nn
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

from .._torch.aot import functorch_config
from .given import GivenModel

RIGHT, SLOW, WRONG, ERROR = "right", "right, but slow", "wrong", "error"
"""What may become of an order. Slow: less is compiled or sharded than was written, or more runs, without an error."""
AC, FSDP2, DDP = "AC", "FSDP2", "DDP"
IN_PLACE, BY_WRAPPER = "compile()", "torch.compile"
COMPILES = {IN_PLACE, BY_WRAPPER}
BLOCK_BY_BLOCK = "`for block in model.blocks: block.compile()` in the place of the model's compile"
WITHOUT_TP, WITH_TP = "AC → `block.compile()` → FSDP2 or DDP", "TP → `block.compile()` → AC → FSDP2"
Levels = tuple[frozenset[str], ...]
"""What is around a module, from the inside out; what one level holds came in an order that left no trace."""


@dataclass(frozen=True)
class WrappedPart:
    """What is around the modules ``paths``, the same around each; the path "" is the whole model."""

    levels: Levels
    paths: tuple[str, ...]
    sharded: bool
    """Are there tensor parallel's slices among its parameters?"""

    def has(self, *steps: str) -> bool:
        """Is one of these steps among them?"""
        return any(level & set(steps) for level in self.levels)

    def within(self, inner: str, *outer: str) -> bool:
        """Is one of the ``outer`` steps around the inner one?"""
        at = [number for number, level in enumerate(self.levels) if inner in level]
        return any(level & set(outer) for level in self.levels[at[0] + 1 :]) if at else False

    def holds(self, other: "WrappedPart") -> bool:
        """Is one of the other's modules inside of one of these?"""
        return any(
            inner != path and inner.startswith(f"{path}." if path else "")
            for path in self.paths
            for inner in other.paths
        )

    @property
    def order(self) -> str:
        """From the inside out; "with" stands between steps of which neither can be seen to be the first."""
        return " → ".join(" with ".join(sorted(level)) for level in self.levels)


@dataclass(frozen=True)
class Wrapping:
    """All that a model is wrapped in. ``tensor_parallel``: some parameters are its slices."""

    parts: tuple[WrappedPart, ...]
    tensor_parallel: bool
    budget: float = 1.0
    """``activation_memory_budget``, where it is set: the compiler's own way to save less."""

    @property
    def whole(self) -> WrappedPart:
        return next((each for each in self.parts if "" in each.paths), WrappedPart((), ("",), False))

    @property
    def blocks(self) -> tuple[WrappedPart, ...]:
        return tuple(each for each in self.parts if "" not in each.paths)

    def has(self, *steps: str) -> bool:
        """Is one of these steps anywhere?"""
        return any(each.has(*steps) for each in self.parts)

    def around(self, inner: str, *outer: str) -> bool:
        """Is one of the ``outer`` steps around an inner one, on the same module or on one that holds it?"""
        return any(
            each.within(inner, *outer)
            or (each.has(inner) and any(one.has(*outer) and one.holds(each) for one in self.parts))
            for each in self.parts
        )

    @property
    def recommended(self) -> str:
        """The order to write, on torch 2.13."""
        return WITH_TP if self.tensor_parallel else WITHOUT_TP

    @property
    def untraced(self) -> bool:
        """Is there a pair of steps of which neither can be seen to have come first?"""
        return any(len(level) > 1 for each in self.parts for level in each.levels)

    @property
    def verdict(self) -> tuple[str, str, str]:
        """The outcome, why, and the cure; no cure where the order is the one to write, or as good."""
        as_written = "It does what it says." if self.has(*COMPILES) else "Nothing of it is compiled."
        return next(self._troubles(), (RIGHT, as_written, ""))

    def _troubles(self) -> Iterator[tuple[str, str, str]]:
        """The worst first: what is wrong without an error, then errors, then what is slow."""
        compiled, whole = self.has(*COMPILES), self.whole
        if self.tensor_parallel and self.has(DDP):
            why = "DDP takes parameters out of the model that are DTensors: after a step they are no longer trained."
            yield WRONG, why, "Take FSDP2 in DDP's place: `fully_shard` on each block and on the model."
        if self.tensor_parallel and self.around(AC, *COMPILES):
            why = "torch 2.13 raises an error where compiled code holds a checkpoint and DTensors."
            yield ERROR, why, f"Put the checkpoint around the compiled block: {WITH_TP}."
        if self.tensor_parallel and compiled and self.budget < 1:
            why = "torch 2.13 raises an error where `activation_memory_budget` is set and compiled code holds DTensors."
            yield ERROR, why, f"Leave the budget at 1, and put a checkpoint around the compiled block: {WITH_TP}."
        if self.tensor_parallel and self.has(FSDP2) and whole.has(*COMPILES):
            why = "Compiled as a whole, a model under sequence parallel and FSDP2 raises an error in its first step."
            yield ERROR, why, f"Compile the blocks: {BLOCK_BY_BLOCK}."
        if any(each.within(FSDP2, AC) and each.within(AC, *COMPILES) for each in self.blocks):
            why = (
                "Nothing is compiled: FSDP2's hooks are inside of the compiled checkpoint, and Dynamo skips the block."
            )
            yield SLOW, why, f"Put the checkpoint on before `fully_shard`: {WITHOUT_TP}."
        if self.has(FSDP2) and whole.has(*COMPILES):
            why = (
                "Only the blocks are compiled, although the whole model was asked for: FSDP2's hooks are not traced, "
                "and what is around the blocks stays eager. (With `fullgraph=True` torch raises.)"
            )
            yield SLOW, why, f"Compile the blocks, and say so: {BLOCK_BY_BLOCK}; `fullgraph=True` goes with it."
        plain = [path for each in self.blocks if each.has(BY_WRAPPER) and not each.sharded for path in each.paths]
        if self.tensor_parallel and not self.has(FSDP2) and plain:
            why = f"`{plain[0]}` and what else is compiled so is not sharded: its names have a wrapper's in them."
            yield SLOW, why, "Apply `parallelize_module` before `torch.compile(block)`, or use `block.compile()`."
        if any(self.around(step, AC) for step in COMPILES) and not self.around(AC, *COMPILES):
            why = "A checkpoint is around compiled code, whose whole forward runs twice in a step."
            cure = "" if self.tensor_parallel else f"Put the checkpoint inside of what is compiled: {WITHOUT_TP}."
            yield SLOW, f"{why} With TP torch 2.13 takes no other order." if self.tensor_parallel else why, cure


def wrapping(given: GivenModel) -> Wrapping | None:
    """What the model was wrapped in when it was handed over; None where that is nothing."""
    own = int(any(isinstance(each, FSDPModule) for each in given.model.modules()))  # FSDP2 slices along one axis
    wrapped: dict[tuple[Levels, bool], list[str]] = {}
    inner = {id(child) for module in given.model.modules() for _, child in _unwrapped(module)}
    for path, module in given.model.named_modules():
        if id(module) not in inner and (levels := tuple(_levels(module, given.was_compiled and not path))):
            sharded = any(_slices(each) > own for each in module.parameters())
            wrapped.setdefault((levels, sharded), []).append(path)
    tensor_parallel = _tensor_parallel(given.model, own)
    if not wrapped and not tensor_parallel:
        return None
    parts = tuple(WrappedPart(levels, tuple(paths), sharded) for (levels, sharded), paths in wrapped.items())
    return Wrapping(parts, tensor_parallel, float(functorch_config.activation_memory_budget))


def _unwrapped(module: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """The step whose wrapper a module is, and what is in it; nothing of one that is no wrapper."""
    for step, name in ((BY_WRAPPER, "_orig_mod"), (AC, "_checkpoint_wrapped_module")):
        if isinstance(child := module._modules.get(name), nn.Module):
            yield step, child
    if isinstance(module, DistributedDataParallel):
        yield DDP, module.module


def _levels(module: nn.Module, was_compiled: bool) -> list[frozenset[str]]:
    levels: list[frozenset[str]] = []
    for step, child in _unwrapped(module):
        levels += [*_levels(child, False), frozenset({step})]
    in_place = {IN_PLACE} if getattr(module, "_compiled_call_impl", None) is not None else set()
    in_place |= {FSDP2} if isinstance(module, FSDPModule) else set()
    levels += [frozenset(in_place)] if in_place else []
    return [*levels, frozenset({BY_WRAPPER})] if was_compiled else levels


def _slices(parameter: nn.Parameter) -> int:
    """Along how many axes of a mesh a parameter is sliced."""
    placements = parameter.placements if isinstance(parameter, DTensor) else ()
    return sum(not each.is_replicate() for each in placements)


def _tensor_parallel(model: nn.Module, own: int) -> bool:
    """Are parameters sliced along more axes than FSDP2's ``own``? DDP takes slices out of the parameters: before its
    first step they have a note of what they were, and afterwards they are plain attributes."""
    taken_out = any(isinstance(each, DTensor) for part in model.modules() for each in vars(part).values())
    return taken_out or any(hasattr(each, "_st_info") or _slices(each) > own for each in model.parameters())
