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
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, distribute_tensor, init_device_mesh

from compile_lab.devices.collectives import Program, counted, fake_process_group
from compile_lab.devices.placements import placement
from compile_lab.doors import check_whole, door
from compile_lab.simulator.collectives import Collective
from compile_lab.simulator.patterns import plan

from .gspmd import AXIS, Partitioned, jax_here
from .gspmd_block import LAYOUTS, LINEARS, NAMES, NORMS, BlockLayout, block_program, layout_named, torch_loss

BATCH, LENGTH, DIM, HEADS = 8, 64, 64, 4
_PATTERNS = {"ddp": "ddp", "fsdp": "fsdp", "tp": "tp", "tp+sp": "tp+sp"}
"""The formula's name for each layout."""


@dataclass(frozen=True)
class SideBySide:
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
        rows = self._rows(system)
        return None if rows is None else sum(each.payload_nbytes for each in rows)

    def sent(self, system: str) -> float | None:
        """Bytes that a device sends with collectives on a ring, of the same."""
        rows = self._rows(system)
        return None if rows is None else sum(each.sent_nbytes for each in rows)

    def _rows(self, system: str) -> tuple[Collective, ...] | None:
        return None if self.refused and system in ("dtensor", "owed") else getattr(self, system)


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
def side_by_side(names: Sequence[str] = tuple(LAYOUTS), devices: int = 4) -> tuple[SideBySide, ...]:
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
        found.append(SideBySide(name, devices, program.collectives, eager, by_formula, where, owed, refused, program))
    return tuple(found)


def example(batch: int = BATCH, length: int = LENGTH, dim: int = DIM) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """A block's weights and an input [batch, length, dim], in torch."""
    chance = torch.Generator().manual_seed(0)
    sizes = dict.fromkeys(LINEARS, (dim, dim)) | {"up": (4 * dim, dim), "down": (dim, 4 * dim)}
    weights = {f"{n}.{kind}": torch.ones(dim) if kind == "weight" else torch.zeros(dim)
               for n in NORMS for kind in ("weight", "bias")}  # fmt: skip
    for n, size in sizes.items():
        weights[f"{n}.weight"] = torch.randn(size, generator=chance) / dim**0.5
        weights[f"{n}.bias"] = torch.zeros(size[0])
    return {name: weights[name] for name in NAMES}, torch.randn(batch, length, dim, generator=chance)


def jax_example(batch: int = BATCH, length: int = LENGTH, dim: int = DIM) -> tuple[dict[str, Any], Any]:
    """The same for JAX."""
    jnp = jax_here().numpy
    weights, x = example(batch, length, dim)
    return {name: jnp.asarray(each.numpy()) for name, each in weights.items()}, jnp.asarray(x.numpy())


@door
def annotated_block(
    layout: str | BlockLayout, mesh: DeviceMesh, batch: int = BATCH
) -> tuple[Callable[[], torch.Tensor], dict[str, torch.Tensor]]:
    """The loss of a block [batch, 64, 64] on a mesh of one axis, weights and input as DTensors in a layout; and the
    weights by name. Raises ValueError for a layout that is not known."""
    layout = layout_named(layout) if isinstance(layout, str) else layout
    weights, x = example(batch)

    def put(value: torch.Tensor, word: str) -> Any:
        return distribute_tensor(value, mesh, [placement(word)], src_data_rank=None)

    held = {name: put(each, layout.weights[name]).requires_grad_() for name, each in weights.items()}
    mask, given = put(torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril(), "R"), put(x, layout.x)
    return lambda: torch_loss(held, given, mask), held


def dtensor_counts(
    layout: BlockLayout, devices: int
) -> tuple[tuple[Collective, ...], tuple[Collective, ...], dict[str, str], str]:
    """What eager DTensor sends for a step, what bringing the gradients to their weights' places adds, where they were.

    The stream's own placement is not asked of it: it follows from the input's, or does not. Last, why it refused.
    """
    with fake_process_group(devices), _quiet():
        mesh = init_device_mesh("cpu", (devices,), mesh_dim_names=(AXIS,))
        loss, held = annotated_block(layout, mesh)
        try:
            step = counted(Program(lambda: loss().backward(), (), mesh))
        except RuntimeError as refusal:  # a placement that an operator does not take
            return (), (), {}, str(refusal).strip().partition("\n")[0]
        grads = {name: each.grad for name, each in held.items() if isinstance(each.grad, DTensor)}
        where = {name: _word(each.placements[0]) for name, each in grads.items()}

        def settle() -> None:
            for name, each in grads.items():
                each.redistribute(placements=[placement(layout.weights[name])])

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

    q, k and v are one matmul in it; heads must divide among the devices of ``tp``. A count of 0: the block's gradients
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
