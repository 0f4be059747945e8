"""Which patterns there are, which axes of a mesh each of them needs, and whether a model and a batch divide by it.

Patterns, axes and the rule that chooses sizes stand in a table, ``compile_lab/simulator/patterns.toml``, which the
simulator plans by too: it is read here as data, and no instrument is imported. Nothing here builds or sends anything,
so a size that does not divide is told before a model is made.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from math import prod
from typing import Any

from ..inputs import one_of
from ..model import GPTConfig

_TABLE = tomllib.loads(resources.files("compile_lab").joinpath("simulator", "patterns.toml").read_text("utf-8"))

DATA_AXES: tuple[str, ...] = tuple(_TABLE["axes"]["split_the_batch"])
SLICED_AXES: tuple[str, ...] = tuple(_TABLE["axes"]["slice_the_parameters"])
MODES = ("default", "max-autotune-no-cudagraphs")
"""Of torch.compile, for a model in parts: the other modes replay CUDA graphs, and nobody tried those here."""


@dataclass(frozen=True)
class Pattern:
    """A way to spread a model. `axes` are the mesh's, outermost first: ranks next to each other differ in the last.

    Along "replicate" every rank holds all parameters (DDP), along "shard" a slice of each (FSDP); both split the batch.
    Along "tp" every rank computes a slice of each layer, along "pp" other layers; both see the same rows of the batch.
    Along "cp" every rank takes some positions of each row, along "ep" rows of its own and some of the experts; both
    hold a slice of each other parameter.
    """

    axes: tuple[str, ...]
    sequence: bool  # outside the matmuls, tensor parallel splits the sequence


PATTERNS = {
    name: Pattern(tuple(axes), name in _TABLE["axes"]["split_the_sequence"])
    for name, axes in (_TABLE["patterns"] | _TABLE["trained"]).items()
    if axes  # one device needs no mesh
}


@dataclass(frozen=True)
class Schedule:
    """What a schedule of torch.distributed.pipelining asks of a pipeline."""

    stages_per_rank: int = 1
    v_shaped: bool = False  # rank r has stages r and last - r; otherwise r, r + ranks, …
    splits_backward: bool = False  # into the gradients of inputs and those of weights


SCHEDULES = {
    "GPipe": Schedule(),
    "1F1B": Schedule(),
    "Interleaved1F1B": Schedule(2),
    "LoopedBFS": Schedule(2),
    "InterleavedZeroBubble": Schedule(2, splits_backward=True),
    "ZBVZeroBubble": Schedule(2, v_shaped=True, splits_backward=True),
    "DualPipeV": Schedule(2, v_shaped=True, splits_backward=True),
}


def pattern_of(name: str) -> Pattern:
    """The pattern of that name. ValueError lists the names.

    >>> from mini_model.parallel.patterns import pattern_of
    >>> pattern_of("fsdp+tp")
    Pattern(axes=('shard', 'tp'), sequence=False)
    """
    return PATTERNS[one_of("pattern", name, PATTERNS)]


def schedule_of(name: str) -> Schedule:
    """The pipeline schedule of that name. ValueError lists the names.

    >>> from mini_model.parallel.patterns import schedule_of
    >>> schedule_of("DualPipeV")
    Schedule(stages_per_rank=2, v_shaped=True, splits_backward=True)
    """
    return SCHEDULES[one_of("schedule", name, SCHEDULES)]


def mesh_sizes(config: GPTConfig | None, pattern: str, devices: int, **given: int) -> dict[str, int]:
    """How many ranks there are along each axis of the pattern's mesh: {"shard": 4, "tp": 2}.

    given: sizes of axes by name. The others choose in the table's order, tensor parallel first and inside a machine,
    by the heads and layers of `config`; the last takes what is left, and if it is the only one, no config is needed.
    ValueError for an unknown pattern or axis, or a number of devices that makes no such mesh.

    >>> from mini_model.model import MINI
    >>> from mini_model.parallel.patterns import mesh_sizes
    >>> mesh_sizes(MINI, "fsdp+tp", 8)
    {'shard': 2, 'tp': 4}
    >>> mesh_sizes(MINI, "fsdp+tp", 8, tp=2)
    {'shard': 4, 'tp': 2}
    """
    axes = pattern_of(pattern).axes
    for name, size in {"devices": devices, **given}.items():
        if not isinstance(size, int) or size < 1:
            raise ValueError(f"{name}={size!r}: a number of devices is a whole number from 1")
    if unknown := [axis for axis in given if axis not in axes]:
        raise ValueError(f"pattern {pattern!r} has no axis {unknown[0]!r}; its axes are {', '.join(axes)}")
    choices = [choice for choice in _TABLE["choice"] if choice["axis"] in axes and choice["axis"] not in given]
    sizes, (rest, left_over) = dict(given), divmod(devices, prod(given.values()))
    for later, choice in zip(reversed(range(len(choices))), choices, strict=True):
        chosen = _largest(choice, config, rest, later, prod(sizes.values())) if later else rest
        if not chosen or left_over:
            break
        sizes[choice["axis"]] = chosen
        rest //= chosen
    if set(sizes) != set(axes) or prod(sizes.values()) != devices:
        named = " × ".join(f"{axis} {sizes[axis]}" if axis in sizes else axis for axis in axes)
        raise ValueError(
            f"{devices} devices do not make a mesh of {named} for pattern {pattern!r}: the product of the axes is the "
            "number of devices, tp divides the heads and pp the layers, and an axis whose size is not given has 2 or "
            "more. Take another number of devices, or give the sizes of the axes"
        )
    return {axis: sizes[axis] for axis in axes}


def _largest(choice: Mapping[str, Any], config: GPTConfig | None, rest: int, later: int, inside: int) -> int | None:
    """The size that an axis chooses, with `rest` devices left and `later` axes still to choose; None if none fits.

    `inside` is the product of the sizes that are known already.
    """
    if config is None:
        raise ValueError(
            f"axis {choice['axis']!r} has no size, and without a model none can be chosen. Give the sizes of all axes "
            "but one, or the model's config"
        )
    leave = 2**later
    if choice.get("leaves_a_machine") and rest >= 2 * _TABLE["machine"]:
        leave = max(leave, _TABLE["machine"] // inside)
    whole = getattr(config, choice.get("divides", ""), rest)
    fitting = [size for size in range(2, min(choice["most"], rest // leave) + 1) if rest % size == whole % size == 0]
    return max(fitting, default=None)


def check(
    config: GPTConfig,
    pattern: str,
    sizes: dict[str, int],
    schedule: str = "1F1B",
    microbatches: int = 4,
    mode: str | None = None,
) -> None:
    """ValueError, with the rule and a way out, if the model does not divide by the mesh, or is not compiled there."""
    if mode not in (None, *MODES):
        raise ValueError(
            f"mode {mode!r} does not go with pattern {pattern!r}: a model in parts is compiled block by block, without "
            f"CUDA graphs. Take {' or '.join(map(repr, MODES))}, or leave it eager"
        )
    tp, ranks = sizes.get("tp", 1), sizes.get("pp", 1)
    _check_experts(config, pattern, sizes)
    check_length(config.context, sizes)
    if config.heads % tp:
        raise ValueError(
            f"{config.heads} heads do not divide by tp={tp}: tensor parallel gives every rank whole heads. "
            f"Take a tp that divides {config.heads}"
        )
    if pattern_of(pattern).sequence and config.context % tp:
        raise ValueError(
            f"a context of {config.context} tokens does not divide by tp={tp}: sequence parallel gives every rank "
            "equally many positions. Take another tp, or pattern 'tp'"
        )
    if "pp" not in sizes:
        return
    if mode and schedule_of(schedule).splits_backward:
        raise ValueError(
            f"mode {mode!r} does not go with schedule {schedule!r}, which runs a block's backward in two parts: "
            "compiled, it is one. Take another schedule, or leave it eager"
        )
    stages = ranks * schedule_of(schedule).stages_per_rank
    if config.layers % stages:
        raise ValueError(
            f"{config.layers} layers do not divide by {stages} stages ({ranks} ranks × "
            f"{stages // ranks} with schedule {schedule!r}): every stage has equally many layers. "
            f"Take fewer ranks along pp, another schedule, or a model whose layers are a multiple of {stages}"
        )
    _check_microbatches(schedule, ranks, microbatches)


def _check_experts(config: GPTConfig, pattern: str, sizes: dict[str, int]) -> None:
    if "ep" in sizes and (config.experts == 0 or config.experts % sizes["ep"]):
        has = f"{config.experts} experts do" if config.experts else "a model without experts does"
        raise ValueError(
            f"{has} not divide by ep={sizes['ep']}: expert parallel gives every rank equally many experts. Take a "
            "config with experts that are a multiple of it, such as mini-mixture, or pattern 'fsdp'"
        )
    if config.experts and "tp" in sizes:
        raise ValueError(
            f"pattern {pattern!r} slices each MLP, and this config has {config.experts} experts in its place: take "
            "'ep', 'fsdp' or another pattern without tensor parallel"
        )


def check_length(length: int, sizes: dict[str, int]) -> None:
    """ValueError if a sequence of that many tokens does not divide among the ranks of context parallel.

    >>> from mini_model.parallel.patterns import check_length
    >>> check_length(64, {"cp": 4})
    >>> check_length(60, {"cp": 4})
    Traceback (most recent call last):
        ...
    ValueError: 60 tokens do not divide by 8: each of cp=4 ranks takes two equal pieces of a sequence, one from the
    front and one from the back. Take a length that is a multiple of 8
    """
    pieces = 2 * sizes.get("cp", 0)
    if pieces and length % pieces:
        raise ValueError(
            f"{length} tokens do not divide by {pieces}: each of cp={sizes['cp']} ranks takes two equal pieces of a "
            f"sequence, one from the front and one from the back. Take a length that is a multiple of {pieces}"
        )


def _check_microbatches(schedule: str, ranks: int, microbatches: int) -> None:
    """The rules of torch's schedules, which else speak up after everything is built."""
    if not isinstance(microbatches, int) or microbatches < 1:
        raise ValueError(f"microbatches={microbatches!r}: a number of micro-batches is a whole number from 1")
    least = {"1F1B": ranks, "DualPipeV": 2 * ranks}.get(schedule, 1)
    if microbatches < least:
        raise ValueError(
            f"{microbatches} micro-batches are too few for {schedule!r}: it needs at least {least}, one a stage. "
            "Take more micro-batches, or GPipe"
        )
    rounds = max(1, microbatches // ranks)
    if schedule in ("Interleaved1F1B", "InterleavedZeroBubble") and microbatches % rounds:
        raise ValueError(
            f"{microbatches} micro-batches do not divide by the {rounds} rounds of {schedule!r} on {ranks} ranks. "
            f"Take a multiple of {ranks}"
        )


def check_batch(batch: int, sizes: dict[str, int], microbatches: int = 4) -> None:
    """ValueError if a batch of that many rows does not divide among the data axes, and there into micro-batches.

    >>> from mini_model.parallel.patterns import check_batch
    >>> check_batch(32, {"shard": 4})
    >>> check_batch(30, {"shard": 4})
    Traceback (most recent call last):
        ...
    ValueError: a batch of 30 rows does not divide by 4 data-parallel ranks: each takes equally many rows.
    Take a batch that is a multiple of 4
    """
    data = prod(sizes.get(axis, 1) for axis in DATA_AXES)
    if batch % data:
        raise ValueError(
            f"a batch of {batch} rows does not divide by {data} data-parallel ranks: each takes equally many rows. "
            f"Take a batch that is a multiple of {data}"
        )
    if "pp" in sizes and (batch // data) % microbatches:
        raise ValueError(
            f"{batch // data} rows a pipeline do not divide into {microbatches} micro-batches of equal size. "
            f"Take a batch that is a multiple of {data * microbatches}, or another number of micro-batches"
        )
