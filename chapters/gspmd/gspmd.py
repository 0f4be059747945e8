"""The only door to jax: eight devices on one CPU, and what XLA makes of a function whose tensors are annotated.

In a process with ``COMPILE_LAB_XLA=cuda`` the devices are the machine's GPUs, and XLA takes its pipeline for them.

XLA compiles one program for all devices. `partitioned` says where some tensors are split, and reads from the compiled
program what it decided for the others and what it sends. Placements are the lab's words, as for DTensor: ``R``,
``S(0)``, one for each axis of the mesh, and ``free`` for a tensor that is not annotated.
"""

import contextlib
import functools
import importlib
import importlib.util
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from compile_lab.doors import check_whole, door, shown
from compile_lab.simulator.collectives import Collective

from .gspmd_hlo import Sent, sent, totals

TESTED_JAX = "0.10.2"
DEVICES = 8
PLATFORM = os.environ.get("COMPILE_LAB_XLA", "cpu")
"""Whose devices. A GPU is left alone unless it is requested, so that every machine shows the same."""
PARTITIONERS = ("shardy", "gspmd")
AXIS = "x"
FREE = "free"
"""The word for a tensor that the partitioner decides on."""


@dataclass(frozen=True)
class Partitioned:
    """A function as one device runs it.

    ``sent`` has each collective of the compiled program, ``collectives`` their sums. ``inputs`` and ``outputs`` are
    what was decided, by name, in the lab's words. ``flops`` are XLA's own count for one device. ``hlo`` is the
    compiled program.
    """

    collectives: tuple[Collective, ...]
    sent: tuple[Sent, ...] = field(repr=False)
    inputs: Mapping[str, str] = field(repr=False)
    outputs: Mapping[str, str] = field(repr=False)
    flops: float
    mesh: Mapping[str, int]
    partitioner: str
    compile_s: float = field(repr=False, compare=False)
    hlo: str = field(repr=False)
    run: Callable[..., Any] = field(repr=False, compare=False)
    """Runs it: takes the arguments whole, gives results whose shards lie where ``outputs`` says."""

    @property
    def payload_nbytes(self) -> int:
        """Bytes of the whole tensors of all collectives."""
        return sum(each.payload_nbytes for each in self.collectives)

    @property
    def sent_nbytes(self) -> int:
        """Bytes that a device sends, with collectives on a ring."""
        return sum(each.sent_nbytes for each in self.collectives)


@door
def jax_here(devices: int = DEVICES if PLATFORM == "cpu" else 1) -> Any:
    """The module jax, with as many devices at least. Call it first: jax counts its devices when it is first used.

    Raises ModuleNotFoundError where jax is not installed, and RuntimeError if it has been started with fewer devices,
    each with the way out.
    """
    check_whole("devices", devices, 1, 64)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # else XLA says in red that GSPMD will go
    try:
        jax = importlib.import_module("jax")
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            f'jax is not installed, and XLA cannot run without it: pip install "jax=={TESTED_JAX}" '
            "(about 500 MB). The page's stored outputs show what it said"
        ) from None
    with contextlib.suppress(RuntimeError):  # it has been started: what counts is how many devices it has
        jax.config.update("jax_platforms", PLATFORM)
        jax.config.update("jax_num_cpu_devices", max(devices, DEVICES))
    if (found := len(jax.devices(PLATFORM))) < devices:
        raise RuntimeError(
            f"devices={devices}, and jax was started with {found} in this process, which cannot be changed: restart "
            "the kernel and call jax_here() before anything else uses jax"
        )
    return jax


@door
def mesh_of(mesh: int | Mapping[str, int], explicit: bool = False) -> Any:
    """A jax mesh of devices: a number of them along an axis ``x``, or the axes' sizes by name.

    Its axes are left to the partitioner, as in the older versions of jax, or ``explicit``: types say what is split.
    Raises ValueError for an empty mesh or a size that is none, and as `jax_here`.
    """
    axes = _axes(mesh)
    count = 1
    for size in axes.values():
        count *= size
    jax = jax_here(count)
    kind = jax.sharding.AxisType.Explicit if explicit else jax.sharding.AxisType.Auto
    devices = jax.devices(PLATFORM)[:count]
    return jax.make_mesh(tuple(axes.values()), tuple(axes), axis_types=(kind,) * len(axes), devices=devices)


@door
def partitioned(
    fn: Callable[..., Any],
    args: Sequence[Any],
    layout: Sequence[Any],
    *,
    mesh: int | Mapping[str, int] = 4,
    partitioner: str = "shardy",
    out: Any = FREE,
) -> Partitioned:
    """Compile ``fn(*args)`` for the mesh with some tensors annotated, and read what XLA decided and sends.

    ``layout`` has an entry for each argument: a placement for all of it, or, of a mapping, one by key. ``out`` is the
    same for what ``fn`` returns. Raises ValueError for a layout that does not fit, whatever jax raises for a size that
    does not divide (IndivisibleError is a ValueError), and as `jax_here`.
    """
    begun = time.perf_counter()
    lowered, compiled = compiled_for(fn, args, layout, mesh=mesh, partitioner=partitioner, out=out)
    seconds = time.perf_counter() - begun
    return read(lowered, compiled, args, _axes(mesh), partitioner, seconds)


def read(
    lowered: Any, compiled: Any, args: Any, axes: Mapping[str, int], partitioner: str, seconds: float
) -> Partitioned:
    """What a compiled program of jax says of itself, as a `Partitioned`."""
    jax = jax_here()
    hlo = compiled.as_text()
    found = sent(hlo, axes)
    return Partitioned(
        collectives=totals(found),
        sent=found,
        inputs=_decided(jax, compiled.input_shardings[0], args, axes),
        outputs=_decided(jax, compiled.output_shardings, lowered.out_info, axes),
        flops=(compiled.cost_analysis() or {}).get("flops", 0.0),
        mesh=axes,
        partitioner=partitioner,
        compile_s=seconds,
        hlo=hlo,
        run=lambda *given: compiled(*put_inputs(given, compiled)),
    )


def compiled_for(
    fn: Callable[..., Any],
    args: Sequence[Any],
    layout: Sequence[Any],
    *,
    mesh: int | Mapping[str, int],
    partitioner: str,
    out: Any = FREE,
    options: Mapping[str, Any] | None = None,
) -> tuple[Any, Any]:
    """jax's lowered program, before XLA, and the compiled one. ``options`` are XLA's own. Raises as `partitioned`."""
    if partitioner not in PARTITIONERS:
        raise ValueError(f"partitioner={partitioner!r} is not known; it is one of {', '.join(PARTITIONERS)}")
    if len(layout) != len(args):
        raise ValueError(
            f"layout has {len(layout)} entries for {len(args)} arguments; give each its own, '{FREE}' for one that is "
            "not annotated"
        )
    on = mesh_of(mesh)
    jax = jax_here()

    @functools.wraps(fn)
    def fresh(*given: Any) -> Any:  # jax remembers what it traced for the other partitioner by the function
        return fn(*given)

    shardings = tuple(_shardings(jax, on, entry, arg) for entry, arg in zip(layout, args, strict=True))
    ends = {} if out == FREE else {"out_shardings": _shardings(jax, on, out, None)}
    with _partitioned_by(jax, partitioner):
        lowered = jax.jit(fresh, in_shardings=shardings, **ends).lower(*args)
        return lowered, lowered.compile(compiler_options=dict(options or {}))


@door
def spec(word: str, axes: Mapping[str, int], ndim: int | None = None) -> Any:
    """The PartitionSpec of a placement: ``S(0) R`` splits rows over the first axis of the mesh. None for ``free``.

    Raises ValueError for a word that is none, for a number of them that is not the axes', and for a dimension that a
    tensor of ``ndim`` has not.
    """
    jax = jax_here()
    if word == FREE:
        return None
    words = word.split()
    if len(words) == 1 and words == ["R"]:
        words *= len(axes)
    if len(words) != len(axes):
        raise ValueError(f"placement {shown(word)} has {len(words)} words for the axes {', '.join(axes)}: one for each")
    split: dict[int, list[str]] = {}
    for one, axis in zip(words, axes, strict=True):
        place = re.fullmatch(r"S\((\d+)\)", one)
        if not place and one != "R":
            raise ValueError(
                f"placement {shown(one)} is not known here; it is R, S(0), S(1), …, or {FREE} for all axes"
            )
        if place:
            split.setdefault(int(place[1]), []).append(axis)
    if ndim is not None and split and max(split) >= ndim:
        raise ValueError(f"placement {shown(word)} splits dimension {max(split)}, and the tensor has {ndim}")
    dims = [tuple(split.get(dim, ())) for dim in range(max(split, default=-1) + 1)]
    return jax.sharding.PartitionSpec(*(names[0] if len(names) == 1 else names or None for names in dims))


def word_of(partition_spec: Any, axes: Mapping[str, int]) -> str:
    """The lab's words for a PartitionSpec: one for each axis of the mesh."""
    words = dict.fromkeys(axes, "R")
    for dim, names in enumerate(partition_spec):
        for name in (names,) if isinstance(names, str) else names or ():
            words[name] = f"S({dim})"
    return " ".join(words.values())


def _shardings(jax: Any, mesh: Any, entry: Any, arg: Any) -> Any:
    """jax's shardings for an entry of a layout: a word, a PartitionSpec, or a mapping of either."""
    if isinstance(entry, Mapping):
        if isinstance(arg, Mapping) and (other := sorted(set(entry) ^ set(arg))):
            raise ValueError(f"layout and argument differ in {', '.join(other)}: give each a placement, or '{FREE}'")
        return {key: _shardings(jax, mesh, one, arg[key] if arg is not None else None) for key, one in entry.items()}
    if isinstance(entry, (tuple, list)):
        members = arg if arg is not None else [None] * len(entry)
        return tuple(_shardings(jax, mesh, one, each) for one, each in zip(entry, members, strict=True))
    placed = spec(entry, dict(mesh.shape), getattr(arg, "ndim", None)) if isinstance(entry, str) else entry
    return None if placed is None else jax.sharding.NamedSharding(mesh, placed)


def put_inputs(given: Any, compiled: Any) -> Any:
    """Arguments of a compiled program, each where the program wants it."""
    jax, shardings = jax_here(), compiled.input_shardings[0]
    leaves, tree = jax.tree.flatten(tuple(given))
    places = jax.tree.leaves(shardings, is_leaf=lambda each: each is None)  # None for an argument that is not used
    return jax.tree.unflatten(tree, [jax.device_put(each, place) for each, place in zip(leaves, places, strict=True)])


def _decided(jax: Any, shardings: Any, values: Any, axes: Mapping[str, int]) -> dict[str, str]:
    """Placements by the place in the tree, such as ``0.up.weight``."""
    names = [jax.tree_util.keystr(path, simple=True, separator=".") for path, _ in
             jax.tree_util.tree_flatten_with_path(values)[0]]  # fmt: skip
    found = jax.tree.leaves(shardings, is_leaf=lambda each: each is None)
    words = ["unused" if each is None else word_of(each.spec, axes) for each in found]
    return {name or "0": word for name, word in zip(names, words, strict=True)}


@contextlib.contextmanager
def _partitioned_by(jax: Any, partitioner: str) -> Iterator[None]:
    before = getattr(jax.config, "jax_use_shardy_partitioner", None)
    if before is None and partitioner == "shardy":  # a jax that has no other
        yield
        return
    jax.config.update("jax_use_shardy_partitioner", partitioner == "shardy")
    try:
        yield
    finally:
        jax.config.update("jax_use_shardy_partitioner", before)


def _axes(mesh: int | Mapping[str, int]) -> dict[str, int]:
    axes = {AXIS: mesh} if isinstance(mesh, int) else dict(mesh)
    if not axes:
        raise ValueError("mesh has no axes; give a number of devices, or sizes by name such as {'tp': 4}")
    for name, size in axes.items():
        check_whole(f"mesh axis {name}", size, 1, 64)
    return axes
