"""Which activations are computed again in the backward? The strategies, as a twin of the model that shares its weights.

A strategy for blocks that run one after the other: run them in segments under ``torch.utils.checkpoint``, which keeps
a segment's input and runs it again when the backward comes to it; let a policy keep the results of some operations
within it; compile the whole, and give the compiler a memory budget.
"""

import contextlib
import copy
import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

from ..aot.partition import budgeted
from ..doors import check_whole, door

MOST_BLOCKS = 100_000
MATMULS = ("mm", "addmm", "bmm", "baddbmm")
ATTENTION = (
    "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_cudnn_attention",
)


def _check_every(every: int) -> None:
    if isinstance(every, bool) or every < 1:
        raise ValueError(
            f"every={every!r}: a segment has at least one block, so it is a whole number from 1; for no checkpoint, "
            "take the model as it is (Strategy: every=None)"
        )


@door
@dataclass(frozen=True)
class Strategy:
    """How a model of many blocks trades memory for work.

    ``every``: blocks in a checkpointed segment, None for no checkpoint. ``keep``: operations of aten whose results a
    segment keeps all the same. ``compiled``: with torch.compile; then ``budget`` is its ``activation_memory_budget``.
    Raises ValueError for parts that do not go together.

    >>> from compile_lab.checkpointing import Strategy
    >>> Strategy("pairs", every=2)
    Strategy(name='pairs', every=2, keep=(), compiled=False, budget=None)
    >>> Strategy("half", budget=0.5)
    Traceback (most recent call last):
        ...
    ValueError: strategy 'half': a budget is the compiler's: set compiled=True
    """

    name: str
    every: int | None = None
    keep: tuple[str, ...] = ()
    compiled: bool = False
    budget: float | None = None

    def __post_init__(self) -> None:
        if self.every is not None:
            _check_every(self.every)
        if self.keep and self.every is None:
            raise ValueError(f"strategy {self.name!r}: keep={self.keep} has no segment to keep something in: set every")
        if self.budget is not None and not self.compiled:
            raise ValueError(f"strategy {self.name!r}: a budget is the compiler's: set compiled=True")
        budgeted(self.budget)  # raises for one out of range

    def applied(self, model: nn.Module, blocks: str = "blocks") -> nn.Module:
        """A twin of the model, with the same parameters, that runs its blocks by this strategy; not yet compiled."""
        return model if self.every is None else checkpointed(model, self.every, self.keep, blocks)

    def context(self) -> contextlib.AbstractContextManager[Any]:
        """To be open while the compiled model is called for the first time: the compiler's budget."""
        return budgeted(self.budget)


NONE = Strategy("none")
EVERY_LAYER = Strategy("every layer", every=1)
MATMULS_KEPT = Strategy("keep matmuls", every=1, keep=(*MATMULS, *ATTENTION))


@door
def segments_of(blocks: int) -> tuple[Strategy, ...]:
    """Checkpointing in segments of each length that divides the number of blocks: ``segments of 4``.

    >>> from compile_lab.checkpointing.strategies import segments_of
    >>> [(strategy.name, strategy.every) for strategy in segments_of(6)]
    [('every layer', 1), ('segments of 2', 2), ('segments of 3', 3), ('segments of 6', 6)]
    """
    check_whole("blocks", blocks, 1, MOST_BLOCKS)
    lengths = [length for length in range(1, blocks + 1) if blocks % length == 0]
    return tuple(Strategy(f"segments of {n}" if n > 1 else EVERY_LAYER.name, every=n) for n in lengths)


@door
def budgets(values: Sequence[float]) -> tuple[Strategy, ...]:
    """The compiler under each of several memory budgets; with 1 it does as it always does.

    >>> from compile_lab.checkpointing.strategies import budgets
    >>> [(strategy.name, strategy.compiled) for strategy in budgets([0.25, 1])]
    [('budget 0.25', True), ('budget 1', True)]
    """
    return tuple(Strategy(f"budget {value:g}", compiled=True, budget=value) for value in values)


class Segment(nn.Module):
    """Blocks that run one after the other under one checkpoint; ``keep`` as in `Strategy`."""

    def __init__(self, blocks: Iterable[nn.Module], keep: tuple[str, ...] = (), preserve_rng: bool = True) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)
        self.preserve_rng = preserve_rng
        self.options: dict[str, Any] = {}
        if keep:
            self.options = {"context_fn": functools.partial(create_selective_checkpoint_contexts, keeping(keep))}

    def forward(self, x: Tensor) -> Tensor:
        return checkpoint(self._run, x, use_reentrant=False, preserve_rng_state=self.preserve_rng, **self.options)

    def _run(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return x


def keeping(ops: Iterable[str]) -> Callable[..., CheckpointPolicy]:
    """A policy for ``create_selective_checkpoint_contexts``: save the results of these operations of aten.

    They are named as they reach the dispatcher below autograd, ``addmm`` and not ``linear``. Raises ValueError, with
    the names that do, for one that is not there or that autograd takes apart before it arrives.
    """
    kept = set()
    for name in ops:
        packet = getattr(torch.ops.aten, name, None)
        if packet is None or name in ("linear", "matmul", "scaled_dot_product_attention"):
            raise ValueError(
                f"a policy never sees an operation {name!r}: it gets what is below autograd, such as {MATMULS}"
            )
        kept.add(packet)

    def policy(context: Any, op: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
        saved = getattr(op, "overloadpacket", None) in kept
        return CheckpointPolicy.MUST_SAVE if saved else CheckpointPolicy.PREFER_RECOMPUTE

    return policy


@door
def checkpointed(
    model: nn.Module, every: int = 1, keep: tuple[str, ...] = (), blocks: str = "blocks", preserve_rng: bool = True
) -> nn.Module:
    """A twin of ``model`` that shares its parameters and runs its blocks in checkpointed segments of ``every`` blocks.

    ``blocks`` names the ModuleList that the model's forward runs through. The model itself stays as it is.
    Raises ValueError if there is no such list, or ``every`` is no number of blocks.

    >>> import torch
    >>> from compile_lab.checkpointing import checkpointed
    >>> model = torch.nn.Module()
    >>> model.blocks = torch.nn.ModuleList(torch.nn.Linear(4, 4) for _ in range(5))
    >>> [len(segment.blocks) for segment in checkpointed(model, every=2).blocks]
    [2, 2, 1]
    """
    _check_every(every)
    layers = getattr(model, blocks, None)
    if not isinstance(layers, nn.ModuleList):
        there = [name for name, child in model.named_children() if isinstance(child, nn.ModuleList)]
        raise ValueError(
            f"{type(model).__name__} has no ModuleList {blocks!r} of blocks to checkpoint; it has {there or 'none'}"
        )
    twin = copy.copy(model)
    twin._modules = dict(model._modules)
    parts = [layers[at : at + every] for at in range(0, len(layers), every)]
    setattr(twin, blocks, nn.ModuleList(Segment(part, keep, preserve_rng) for part in parts))
    return twin
