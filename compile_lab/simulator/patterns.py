"""What does each sharding pattern hold and send? ``plan(shape, pattern, devices)``, by formula.

A pattern is a mesh of devices with named axes. Along ``replicate`` every device holds all parameters (DDP), along
``shard`` a slice of each (FSDP, ZeRO-3); both split the batch. Along ``tp`` it computes a slice of each layer, along
``pp`` other layers; along ``cp`` it has a slice of each parameter, and some positions of every sequence; along ``ep``
its part of the batch, some of the experts, whole, and a slice of each other parameter. Variants slice less along
``shard``: only the optimizer's state (ZeRO-1), or that and the gradients (ZeRO-2), or everything, but keep a layer
gathered from its forward to its backward. The formulas follow torch 2.11 to 2.13, and
``compile_lab.devices.collectives`` asks the real program.

Sources: Rajbhandari et al. (2020) for what is divided, Shoeybi et al. (2019) for tensor parallel, Korthikanti et al.
(2022) for sequence parallel and the activations of a layer, Narayanan et al. (2021) for 1F1B.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ..doors import check_whole, door
from ..page.units import in_gb
from .collectives import Collective, Held
from .experts import Load
from .holdings import activations, buffers
from .meshes import AXES, DATA_AXES, MACHINE, PLANNED, SEQUENCE_PARALLEL, VARIANTS, mesh_of
from .moments import transient_peak
from .sharding import Shape, check_divides
from .traffic import FP32, Layout, collectives


@dataclass(frozen=True)
class Precision:
    """Bytes of one number in activations, in gathered parameters, and in gradients that are sent; all else is fp32."""

    computed: int
    gathered: int
    reduced: int


PRECISIONS = {"fp32": Precision(FP32, FP32, FP32), "bf16": Precision(2, 2, FP32)}
"""``bf16``: as autocast does on a GPU. Matmuls are computed, and by FSDP parameters gathered, in bf16; what is between
them, norms and the loss stay in fp32, and gradients are reduced in it."""

OPTIMIZERS = {"AdamW": 2, "SGD, momentum": 1, "SGD": 0}
"""How many numbers an optimizer keeps for each parameter, in fp32."""


@dataclass(frozen=True)
class Share:
    """What one device of a pipeline stage holds, and its collectives in a step. Without a pipeline there is one stage.

    ``buffers_nbytes`` estimates what exists only for a moment, or as a copy to be sent: DDP's buckets; parameters that
    FSDP has gathered and gradients that it has not scattered yet; bf16 copies of parameters; what a stage receives and
    returns; and the logits, as computed and in fp32, at the turn from forward to backward.
    """

    held: Held
    buffers_nbytes: int
    collectives: tuple[Collective, ...]
    peak_nbytes: int
    """Of the largest moment of a step, with cuBLAS's workspaces: see ``moments``. The sum of all is never held."""

    @property
    def total_nbytes(self) -> int:
        """Bytes of all that is counted here, as if it were held at once. Workspaces and fragmentation come on top."""
        return sum(vars(self.held).values()) + self.buffers_nbytes

    @property
    def sent_nbytes(self) -> int:
        """Bytes that the device sends in a step, with collectives on a ring."""
        return sum(each.sent_nbytes for each in self.collectives)


@dataclass(frozen=True)
class Plan:
    """A model laid out on a mesh: for each pipeline stage, what its first device holds and sends in a step.

    ``loads``: what a router gives to the experts of each device under expert parallel. Then there is a share in
    ``stages`` for each of them; without, all get as much.
    """

    pattern: str
    mesh: Mapping[str, int]
    shape: Shape = field(repr=False)
    batch: int
    length: int
    microbatches: int
    precision: str
    optimizer: str
    checkpointing: bool
    stages: tuple[Share, ...] = field(repr=False)
    loads: tuple[Load, ...] = ()

    @property
    def devices(self) -> int:
        return math.prod(self.mesh.values())

    @property
    def fullest(self) -> Share:
        """The share of the stage that holds most."""
        return max(self.stages, key=lambda share: share.total_nbytes)

    @property
    def busiest(self) -> Share:
        """The share of the stage that sends most."""
        return max(self.stages, key=lambda share: share.sent_nbytes)

    @property
    def total_nbytes(self) -> int:
        """Bytes on the fullest device."""
        return self.fullest.total_nbytes

    @property
    def peak_nbytes(self) -> int:
        """The most bytes that a device holds in any moment of the step."""
        return max(share.peak_nbytes for share in self.stages)

    @property
    def sent_nbytes(self) -> int:
        """Bytes that the busiest device sends in a step."""
        return self.busiest.sent_nbytes

    def inside_machine(self, axis: str) -> bool:
        """Are the ranks along this axis, with all axes inside it, devices of one machine?"""
        return self.mesh[axis] <= self.in_machine(axis)

    def in_machine(self, axis: str) -> int:
        """How many of the ranks along this axis are devices of one machine."""
        inner = math.prod(self.mesh.get(each, 1) for each in AXES[AXES.index(axis) + 1 :])
        return max(1, min(self.mesh[axis], MACHINE // inner))

    @property
    def routing(self) -> str:
        """What is assumed of the router, in words, where what a device holds and sends hangs on it."""
        if self.loads:
            most = max(each.computed for each in self.loads)
            return f"the fullest device's experts get {most:.2f} times the even share"
        return "balanced routing assumed" if "ep" in self.mesh else ""

    def __str__(self) -> str:
        mesh = " × ".join(f"{axis} {size}" for axis, size in self.mesh.items()) or "one device"
        return (
            f"{self.pattern} on {mesh}: {in_gb(self.total_nbytes)} on the fullest device, "
            f"{in_gb(self.sent_nbytes)} sent by the busiest in a step"
        ) + (self.routing and f"; {self.routing}")


@door
def plan(
    shape: Shape,
    pattern: str,
    devices: int | Mapping[str, int],
    *,
    batch: int | None = None,
    length: int | None = None,
    microbatches: int | None = None,
    precision: str = "fp32",
    optimizer: str = "AdamW",
    checkpointing: bool = False,
    gathered_logits: bool = False,
    compiled: bool = False,
    loads: Sequence[Load] = (),
) -> Plan:
    """What does each device hold and send in a step, if ``pattern`` spreads a model of this ``shape`` over ``devices``?

    ``devices`` is their number, which ``meshes.mesh_of`` lays out, or the sizes of the axes. ``batch`` is the number of
    sequences in a step over all devices (by default as many as devices), each of ``length`` tokens (by default the
    model's context). A pipeline runs 1F1B over ``microbatches`` (by default of one sequence each). FSDP gathers block
    by block, and what is around the blocks as one unit. With ``checkpointing`` a layer keeps its input alone, and is
    computed again in the backward. ``gathered_logits`` as in ``mini_model.parallel.parallelize``;
    ``compiled``: each block is, which keeps a little less for its backward. ``loads`` of ``expert_loads``, one for each
    device under "ep", say how many rows its experts get; without, routing is balanced.

    Raises ValueError for a name that is not known and a size that does not divide, with the rule and a way out.

    >>> from compile_lab.simulator import plan
    >>> from compile_lab.simulator.explored_view import MODELS
    >>> for pattern in ("ddp", "fsdp"):
    ...     print(plan(MODELS["7 B"], pattern, 8, precision="bf16"))
    ddp on replicate 8: 161 GB on the fullest device, 48.1 GB sent by the busiest in a step
    fsdp on shard 8: 28.6 GB on the fullest device, 47.3 GB sent by the busiest in a step

    What experts hold and send hangs on their router:

    >>> from compile_lab.simulator import expert_loads
    >>> from compile_lab.simulator.explored_view import MIXTURES
    >>> loads, dropped = expert_loads(skew=0.5, ranks=8)
    >>> for each in ((), loads):
    ...     found = plan(MIXTURES["OLMoE 7 B"], "ep", 8, precision="bf16", loads=each)
    ...     print(f"{found.total_nbytes / 1e9:.1f} GB, {found.sent_nbytes / 1e9:.1f} GB sent: {found.routing}")
    35.9 GB, 10.5 GB sent: balanced routing assumed
    45.1 GB, 14.5 GB sent: the fullest device's experts get 2.22 times the even share
    """
    _known("pattern", pattern, PLANNED)
    _known("precision", precision, PRECISIONS)
    _known("optimizer", optimizer, OPTIMIZERS)
    mesh = mesh_of(shape, pattern, devices)
    batch = math.prod(mesh.values()) if batch is None else batch
    length = shape.context if length is None else length
    for name, value in (("batch", batch), ("length", length)):
        check_whole(name, value)
    if length > shape.context:
        raise ValueError(f"length={length} is more than the model's context of {shape.context} tokens; take fewer")
    replicas, pp = math.prod(mesh.get(axis, 1) for axis in DATA_AXES), mesh.get("pp", 1)
    pieces = (max(1, batch // replicas) if microbatches is None else microbatches) if pp > 1 else 1
    check_whole("microbatches", pieces)
    check_divides(shape, mesh, batch, length, pattern in SEQUENCE_PARALLEL, pieces)
    layout = layout_of(shape, pattern, mesh, batch, length, pieces, precision, checkpointing)
    layout = replace(layout, gathered_logits=gathered_logits, compiled=compiled)
    if compiled and layout.assignments:
        raise ValueError("compiled=True of a shape with experts: what a compiled one keeps is not known; plan it eager")
    if loads and len(loads) != mesh.get("ep"):
        raise ValueError(
            f"loads are of {len(loads)} devices, and ep is {mesh.get('ep', 1)}: give a load for each device along ep, "
            "as expert_loads(…, ranks=ep) does, or leave them out for balanced routing"
        )
    each_device = [replace(layout, load=load) for load in loads] or [layout]
    stages = tuple(_share(each, stage, OPTIMIZERS[optimizer]) for stage in range(pp) for each in each_device)
    options = (precision, optimizer, checkpointing)
    return Plan(pattern, mesh, shape, batch, length, pieces, *options, stages, tuple(loads))


def layout_of(
    shape: Shape,
    pattern: str,
    mesh: Mapping[str, int],
    batch: int,
    length: int,
    pieces: int,
    precision: str,
    checkpointing: bool = False,
) -> Layout:
    """What the formulas of traffic and memory ask for. The arguments are those of a `Plan`, and checked there."""
    rows = batch // math.prod(mesh.get(axis, 1) for axis in DATA_AXES)
    variant = {key: value for key, value in VARIANTS.get(pattern, {}).items() if key != "axes"}
    numbers = vars(PRECISIONS[precision])
    sequence = pattern in SEQUENCE_PARALLEL
    return Layout(shape, mesh, rows, length, pieces, sequence, **numbers, **variant, checkpointed=checkpointing)


def _share(layout: Layout, stage: int, states: int) -> Share:
    own = layout.parameters_of(stage)
    tp, shard = layout.size("tp"), layout.shards
    whole, sliced = (FP32 * sum(each.numbers(tp, n) * each.count for each in own) for n in (1, shard))
    held = {kind: sliced if kind in layout.slices else whole for kind in ("parameters", "gradients", "state")}
    kept = Held(held["parameters"], held["gradients"], states * held["state"], activations(layout, stage))
    resting = held["parameters"] + states * held["state"]
    peak = resting + transient_peak(layout, stage, held["gradients"])
    return Share(kept, sum(buffers(layout, stage).values()), collectives(layout, stage), peak)


def _known(name: str, value: str, table: Mapping[str, object]) -> None:
    if value not in table:
        raise ValueError(f"{name}={value!r} is not known; it is one of {', '.join(map(repr, table))}")
