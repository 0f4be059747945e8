"""Which sharding pattern should I take? ``recommend`` lays a model out in every way, and ranks those that fit.

A step's time is estimated as far as a choice needs it: how long the devices compute, and how long what they send takes
on the network that it crosses. Rates are assumed, in ``Network``, and three rules: traffic of gradients and parameters
hides behind the computation as far as that lasts; what tensor parallel and a pipeline send is waited for; a pipeline is
as slow as its last stage, which has the head. Chapter 11 holds the estimates against GPUs.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from ..doors import door
from ..page.units import in_gb
from .meshes import DATA_AXES, MACHINE, PATTERNS
from .patterns import Plan, plan
from .sharding import Shape, parameter_count, parameters

RANKED = tuple(name for name in PATTERNS if name not in ("one device", "pp+tp"))
"""What several devices choose among. A pipeline of tensor parallel alone does not split the batch: with 3d it can."""

USABLE = 0.9
"""Of a card's memory: the rest is for what a plan does not count."""


@door
@dataclass(frozen=True)
class Network:
    """Assumed rates of one device: the bytes a second that it sends inside its machine and out of it, and its FLOP/s.

    The defaults are round numbers for a machine of eight H100 or H200 with a network card for each: about two thirds of
    NVLink's 450 GB/s and nearly all of 50 GB/s, and 40 % of the matrix rate in bf16. ValueError for one that is none.
    """

    inside_bytes_per_s: float = 300e9
    across_bytes_per_s: float = 45e9
    flop_per_s: float = 400e12

    def __post_init__(self) -> None:
        for name, rate in vars(self).items():
            if not 0 < rate < math.inf:
                raise ValueError(f"Network.{name} is {rate}: a rate is a number above 0; leave it out for the default")

    def __str__(self) -> str:
        return (
            f"assumed: {self.inside_bytes_per_s / 1e9:g} GB/s a device inside a machine of {MACHINE}, "
            f"{self.across_bytes_per_s / 1e9:g} GB/s out of it, {self.flop_per_s / 1e12:g} TFLOP/s"
        )


@dataclass(frozen=True)
class Choice:
    """A plan that fits, and its estimated step: the time spent computing, waiting for messages, and in a bubble."""

    plan: Plan
    compute_ms: float
    exposed_ms: float
    bubble_ms: float
    why: str

    @property
    def step_ms(self) -> float:
        return self.compute_ms + self.exposed_ms + self.bubble_ms

    def __str__(self) -> str:
        return f"{self.plan.pattern}: {self.why}"


@dataclass(frozen=True)
class Recommendation:
    """The patterns that fit, best first; why the others do not; and what was assumed."""

    choices: tuple[Choice, ...]
    refused: Mapping[str, str]
    assumed: str

    def __str__(self) -> str:
        fitting = [f"{rank}. {choice}" for rank, choice in enumerate(self.choices, 1)]
        return "\n".join([*fitting, *(f"-  {name}: {why}" for name, why in self.refused.items()), self.assumed])


@door
def recommend(
    shape: Shape,
    devices: int,
    memory_nbytes: float,
    *,
    batch: int | None = None,
    length: int | None = None,
    precision: str = "bf16",
    optimizer: str = "AdamW",
    checkpointing: bool = False,
    network: Network | None = None,
) -> Recommendation:
    """The patterns that fit on ``devices`` of ``memory_nbytes`` each, the shortest estimated step first.

    ``batch``, ``length``, ``precision``, ``optimizer`` and ``checkpointing`` as in ``patterns.plan``. A tenth of the
    memory is left for what a plan does not count: temporaries, workspaces, fragmentation.

    Raises ValueError for a memory that is not positive, and as ``plan`` for a precision or optimizer it does not know.
    """
    if not memory_nbytes > 0:  # nor for NaN
        raise ValueError(f"memory_nbytes={memory_nbytes}: a device's memory in bytes is more than 0")
    network = network or Network()
    given = {"length": length, "precision": precision, "optimizer": optimizer, "checkpointing": checkpointing}
    plan(shape, "one device", 1, **given)  # refuses these before any pattern does
    choices, refused = [], {}
    for pattern in ["one device"] if devices == 1 else RANKED:
        try:
            candidate = plan(shape, pattern, devices, batch=batch, **given)
        except ValueError as error:
            refused[pattern] = f"does not divide: {error}"
            continue
        if candidate.total_nbytes > USABLE * memory_nbytes:
            refused[pattern] = _too_large(candidate, memory_nbytes)
        else:
            choices.append(estimate(candidate, memory_nbytes, network))
    ranked = sorted(choices, key=lambda choice: (choice.step_ms, choice.plan.total_nbytes))
    return Recommendation(tuple(ranked), refused, str(network))


@door
def compute_s(plan: Plan, network: Network) -> float:
    """Seconds that a device computes in a step, if all devices share the work equally.

    With checkpointing the layers' forward comes twice.
    """
    return (model_flop(plan) + again_flop(plan)) / plan.devices / network.flop_per_s


def model_flop(plan: Plan) -> float:
    """Operations of a step that the model asks for, on all devices together.

    For each token 6 operations a parameter, and 12 · layers · dim · length for attention (Chowdhery et al., 2022).
    """
    shape = plan.shape
    per_token = 6 * parameter_count(shape) + 12 * shape.layers * shape.dim * plan.length
    return per_token * plan.batch * plan.length


def again_flop(plan: Plan) -> float:
    """Operations of a step that are done again because of checkpointing: the layers' forward, a third of their work."""
    shape = plan.shape
    of_layers = sum(each.numbers() * each.count for each in parameters(shape) if each.part == "block")
    per_token = 2 * of_layers + 4 * shape.layers * shape.dim * plan.length
    return per_token * plan.batch * plan.length if plan.checkpointing else 0


def last_stage(plan: Plan) -> float:
    """How many times the mean the last stage of a pipeline computes: it has the head besides its layers."""
    shape, stages = plan.shape, plan.mesh.get("pp", 1)
    layer, head = 12 * shape.dim**2 + 2 * shape.dim * plan.length, shape.dim * shape.vocabulary
    return (shape.layers * layer / stages + head) / ((shape.layers * layer + head) / stages)


def traffic_s(plan: Plan, network: Network) -> dict[str, float]:
    """For each axis, the seconds that the busiest device spends sending along it in a step."""
    taken = dict.fromkeys(plan.mesh, 0.0)
    for each in plan.busiest.collectives:
        inside = plan.inside_machine(each.axis)
        taken[each.axis] += each.sent_nbytes / (network.inside_bytes_per_s if inside else network.across_bytes_per_s)
    return taken


def estimate(plan: Plan, memory_nbytes: float, network: Network) -> Choice:
    """How long a step of a plan takes under the assumptions at the head of this module, and why."""
    computing, traffic = compute_s(plan, network) * last_stage(plan), traffic_s(plan, network)
    behind = sum(each for axis, each in traffic.items() if axis in DATA_AXES)
    waited = max(0.0, behind - computing) + sum(each for axis, each in traffic.items() if axis not in DATA_AXES)
    bubble = computing * (plan.mesh.get("pp", 1) - 1) / plan.microbatches
    return Choice(
        plan, 1e3 * computing, 1e3 * waited, 1e3 * bubble, _why(plan, memory_nbytes, waited, bubble, computing)
    )


def _why(plan: Plan, memory_nbytes: float, waited: float, bubble: float, computing: float) -> str:
    """One sentence: what a device holds, what it sends and where, and what it waits for."""
    out = [axis for axis in plan.mesh if not plan.inside_machine(axis)]
    crossing = sum(each.sent_nbytes for each in plan.busiest.collectives if each.axis in out)
    sends = f"sends {in_gb(plan.sent_nbytes)} a step" + (
        f", {in_gb(crossing)} of it out of the machine" if crossing else ""
    )
    waits = [
        f"{share:.0%} of it {what}"
        for share, what in (
            (waited / (computing + waited + bubble), "waiting for messages"),
            (bubble / (computing + waited + bubble), "in the bubble"),
        )
        if share >= 0.005
    ]
    step = f"a step of {1e3 * (computing + waited + bubble):.3g} ms, {' and '.join(waits) or 'with all traffic hidden'}"
    return f"holds {in_gb(plan.total_nbytes)} of {in_gb(memory_nbytes)}, {sends}: {step}"


def _too_large(plan: Plan, memory_nbytes: float) -> str:
    kinds = vars(plan.fullest.held) | {"buffers": plan.fullest.buffers_nbytes}
    most = max(kinds, key=kinds.__getitem__)
    return (
        f"does not fit: {in_gb(plan.total_nbytes)} a device, {in_gb(kinds[most])} of them {most}, "
        f"and {in_gb(USABLE * memory_nbytes)} of {in_gb(memory_nbytes)} can be used"
    )
