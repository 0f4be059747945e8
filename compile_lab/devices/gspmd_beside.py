"""One layout, three answers: what XLA's partitioner sends, what eager DTensor sends, what a formula says.

All three count a step of one block, forward and backward, with gradients where the weights are. DTensor's program runs
on torch's fake process group: collectives are counted, and nothing is sent.
"""

import contextlib
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.distributed.tensor import distribute_tensor, init_device_mesh

from ..doors import check_whole, door
from ..simulator.collectives import Collective
from ..simulator.patterns import plan
from .collectives import Program, counted, pretended
from .gspmd import AXIS, FREE, Partitioned, jax_here, mesh_of, partitioned, spec
from .gspmd_block import LAYOUTS, LINEARS, NAMES, NORMS, BlockLayout, gradients, loss, torch_loss
from .placements import placement

BATCH, LENGTH, DIM, HEADS = 8, 64, 64, 4
_PATTERNS = {"ddp": "ddp", "fsdp": "fsdp", "tp": "tp", "tp+sp": "tp+sp"}
"""The formula's name for each layout."""


@dataclass(frozen=True)
class Beside:
    """One layout on so many devices, three times. ``formula`` is None where there is none.

    ``dtensor_gradients`` says where DTensor's weights' gradients are when the backward is done: ``P(sum)`` is a sum
    that nobody has made yet. ``owed`` is what making it so as the layout wants it adds.
    """

    layout: str
    devices: int
    xla: tuple[Collective, ...]
    dtensor: tuple[Collective, ...]
    formula: tuple[Collective, ...] | None
    dtensor_gradients: Mapping[str, str] = field(repr=False)
    owed: tuple[Collective, ...] = ()
    refused: str = ""
    """Why DTensor would not run it: the first line of its message. Then its rows are empty."""
    xla_program: Partitioned | None = field(repr=False, compare=False, default=None)

    def payload(self, system: str) -> int | None:
        """Bytes of the whole tensors: of ``xla``, ``dtensor``, ``owed`` or ``formula``; None for what there is not."""
        rows = getattr(self, system)
        return (
            None
            if rows is None or (self.refused and system in ("dtensor", "owed"))
            else sum(each.payload_nbytes for each in rows)
        )


@dataclass(frozen=True)
class _BlockShape:
    """What the formula asks of a GPT, of as many layers as one likes."""

    layers: int
    vocabulary: int = 64
    context: int = LENGTH
    dim: int = DIM
    heads: int = HEADS
    tied_head: bool = False


@door
def beside(names: Sequence[str] = tuple(LAYOUTS), devices: int = 4) -> tuple[Beside, ...]:
    """XLA, DTensor and the formula for each of these layouts of a block [8, 64, 64] with four heads.

    Raises ValueError for a layout that is not known, and as `jax_here`.
    """
    check_whole("devices", devices, 2, 8)
    found = []
    for name in names:
        layout = layout_named(name)
        program = block_program(name, *jax_example(), devices=devices)
        eager, owed, where, refused = dtensor_counts(layout, devices)
        by_formula = formula(name, devices)
        found.append(Beside(name, devices, program.collectives, eager, by_formula, where, owed, refused, program))
    return tuple(found)


def layout_named(name: str) -> BlockLayout:
    """The layout of that name. ValueError lists the names."""
    if name not in LAYOUTS:
        raise ValueError(f"layout {name!r} is not known; it is one of {', '.join(LAYOUTS)}")
    return LAYOUTS[name]


def example(seed: int = 0) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """A block's weights and an input, in torch."""
    chance = torch.Generator().manual_seed(seed)
    sizes = dict.fromkeys(LINEARS, (DIM, DIM)) | {"up": (4 * DIM, DIM), "down": (DIM, 4 * DIM)}
    weights = {f"{n}.{kind}": torch.ones(DIM) if kind == "weight" else torch.zeros(DIM)
               for n in NORMS for kind in ("weight", "bias")}  # fmt: skip
    for n, size in sizes.items():
        weights[f"{n}.weight"] = torch.randn(size, generator=chance) / 8
        weights[f"{n}.bias"] = torch.zeros(size[0])
    return {name: weights[name] for name in NAMES}, torch.randn(BATCH, LENGTH, DIM, generator=chance)


def jax_example() -> tuple[dict[str, Any], Any]:
    """The same for JAX."""
    jnp = jax_here().numpy
    weights, x = example()
    return {name: jnp.asarray(each.numpy()) for name, each in weights.items()}, jnp.asarray(x.numpy())


@door
def block_program(
    layout: str | BlockLayout,
    weights: Any,
    x: Any,
    *,
    devices: int = 4,
    heads: int = HEADS,
    partitioner: str = "shardy",
) -> Partitioned:
    """A block's forward and backward in one layout, compiled: a function of (weights, x) that gives the gradients."""
    layout = layout_named(layout) if isinstance(layout, str) else layout
    fn, given = gradients, (layout.weights, layout.x)
    if layout.stream != FREE or heads != HEADS:
        fn = constrained(layout.stream, devices, heads)
    return partitioned(fn, (weights, x), given, mesh={AXIS: devices}, out=layout.weights, partitioner=partitioner)


def constrained(stream: str, devices: int, heads: int = HEADS) -> Callable[..., Any]:
    """The gradients' function with the stream held to a placement."""
    jax = jax_here()
    held = None
    if stream != FREE:
        where = jax.sharding.NamedSharding(mesh_of({AXIS: devices}), spec(stream, {AXIS: devices}))
        held = lambda value: jax.lax.with_sharding_constraint(value, where)  # noqa: E731
    return lambda weights, x: jax.grad(lambda w: loss(w, x, heads, held))(weights)


def dtensor_counts(
    layout: BlockLayout, devices: int
) -> tuple[tuple[Collective, ...], tuple[Collective, ...], dict[str, str], str]:
    """What eager DTensor sends for a step, what bringing the gradients to their weights' places adds, where they were.

    The stream's own placement is not asked of it: it follows from the input's, or does not. Last, why it refused.
    """
    weights, x = example()
    with pretended(devices), _quiet():
        mesh = init_device_mesh("cpu", (devices,), mesh_dim_names=(AXIS,))

        def put(value: torch.Tensor, word: str) -> Any:
            return distribute_tensor(value, mesh, [placement(word)], src_data_rank=None)

        held = {name: put(each, layout.weights[name]).requires_grad_() for name, each in weights.items()}
        mask = put(torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril(), "R")
        given = put(x, layout.x)
        try:
            step = counted(Program(lambda: torch_loss(held, given, mask).backward(), (), mesh))
        except RuntimeError as refusal:  # a placement that an operator does not take
            return (), (), {}, str(refusal).strip().partition("\n")[0]
        where = {name: _word(each.grad.placements[0]) for name, each in held.items()}

        def settle() -> None:
            for name, each in held.items():
                each.grad.redistribute(placements=[placement(layout.weights[name])])

        return step, counted(Program(settle, (), mesh)), where, ""


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """torch says on stderr that the CPU has no all-to-all and gathers instead. The counts say it too."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)


def _word(place: Any) -> str:
    if place.is_partial():
        return f"P({place.reduce_op})"
    return "R" if place.is_replicate() else f"S({place.dim})"


@door
def formula(name: str, devices: int) -> tuple[Collective, ...] | None:
    """What the patterns' formula says of one block: a model of two layers, less a model of one. None if it has none.

    q, k and v are one product in it; heads must divide among the devices of ``tp``. A count of 0: the block's gradients
    join a bucket that is there without them.
    """
    pattern = _PATTERNS[layout_named(name).name]
    try:
        two, one = (plan(_BlockShape(layers), pattern, devices, batch=BATCH, length=LENGTH) for layers in (2, 1))
    except ValueError:
        return None
    sums: Counter[tuple[str, str, int, str]] = Counter()
    for sign, each in ((1, two), (-1, one)):
        for row in each.busiest.collectives:
            key = row.kind, row.axis, row.ranks
            sums[*key, "count"] += sign * row.count
            sums[*key, "bytes"] += sign * row.payload_nbytes
    keys = sorted({each[:3] for each in sums})
    rows = [Collective(*key, sums[*key, "count"], sums[*key, "bytes"]) for key in keys]
    return tuple(each for each in rows if each.payload_nbytes)
