"""Which sharding pattern should I take? ``recommend`` lays a model out in every way, and ranks those that fit.

A step's time is estimated as far as a choice needs it: how long the devices compute, and how long what they send takes
on the network that it crosses. Rates are assumed, in ``Network``, and three rules: traffic of gradients and parameters
hides behind the computation as far as that lasts; what tensor parallel and a pipeline send is waited for; a pipeline is
as slow as its last stage, which has the head. Chapter 11 holds the estimates against GPUs.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from .patterns import MACHINE, PATTERNS, Plan, plan
from .sharding import Shape, parameter_count

HIDDEN_AXES = ("replicate", "shard")
"""Along these, traffic runs beside the computation."""


@dataclass(frozen=True)
class Network:
    """Assumed rates of one device: what it sends a second, inside its machine of eight and out of it, and computes.

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
    """A plan that fits, and its estimated step: time to compute, to wait for messages, to wait in a bubble."""

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
    """What fits, best first; why the other patterns are out; and what was assumed."""

    choices: tuple[Choice, ...]
    refused: Mapping[str, str]
    assumed: str

    def __str__(self) -> str:
        fitting = [f"{rank}. {choice}" for rank, choice in enumerate(self.choices, 1)]
        return "\n".join([*fitting, *(f"-  {name}: {why}" for name, why in self.refused.items()), self.assumed])


def recommend(
    shape: Shape,
    devices: int,
    memory_nbytes: float,
    *,
    batch: int | None = None,
    precision: str = "bf16",
    optimizer: str = "AdamW",
    network: Network | None = None,
) -> Recommendation:
    """The patterns that fit ``devices`` of ``memory_nbytes`` each, the shortest estimated step first.

    ``batch``, ``precision`` and ``optimizer`` as in ``patterns.plan``. A tenth of the memory is left for what a plan
    does not count: temporaries, workspaces, fragmentation.

    Raises ValueError for a memory that is not positive, and as ``plan`` for a precision or optimizer it does not know.
    """
    if not memory_nbytes > 0:  # nor for NaN
        raise ValueError(f"memory_nbytes={memory_nbytes}: a device's memory in bytes is more than 0")
    network = network or Network()
    plan(shape, "one device", 1, precision=precision, optimizer=optimizer)  # refuses these before any pattern does
    choices, refused = [], {}
    for pattern in ["one device"] if devices == 1 else [name for name in PATTERNS if name != "one device"]:
        try:
            found = plan(shape, pattern, devices, batch=batch, precision=precision, optimizer=optimizer)
        except ValueError as error:
            refused[pattern] = f"does not divide: {error}"
            continue
        if found.total_nbytes > 0.9 * memory_nbytes:
            refused[pattern] = _too_large(found, memory_nbytes)
        else:
            choices.append(estimate(found, memory_nbytes, network))
    ranked = sorted(choices, key=lambda choice: (choice.step_ms, choice.plan.total_nbytes))
    return Recommendation(tuple(ranked), refused, str(network))


def compute_s(found: Plan, network: Network) -> float:
    """Seconds that a device computes, on the mean: 6 operations a parameter and token, and 12 · layers · dim · length
    for attention (Chowdhery et al., 2022), shared by all devices.
    """
    shape = found.shape
    per_token = 6 * parameter_count(shape) + 12 * shape.layers * shape.dim * found.length
    return per_token * found.batch * found.length / found.devices / network.flop_per_s


def last_stage(found: Plan) -> float:
    """How much more than the mean the last stage of a pipeline computes: it has the head besides its layers."""
    shape, stages = found.shape, found.mesh.get("pp", 1)
    layer, head = 12 * shape.dim**2 + 2 * shape.dim * found.length, shape.dim * shape.vocabulary
    return (shape.layers * layer / stages + head) / ((shape.layers * layer + head) / stages)


def traffic_s(found: Plan, network: Network) -> dict[str, float]:
    """Seconds that the busiest device's sending takes along each axis."""
    taken = dict.fromkeys(found.mesh, 0.0)
    for each in found.busiest.collectives:
        inside = found.inside_machine(each.axis)
        taken[each.axis] += each.sent_nbytes / (network.inside_bytes_per_s if inside else network.across_bytes_per_s)
    return taken


def estimate(found: Plan, memory_nbytes: float, network: Network) -> Choice:
    """How long a step of a plan takes under the assumptions at the head of this module, and why."""
    computing, traffic = compute_s(found, network) * last_stage(found), traffic_s(found, network)
    behind = sum(each for axis, each in traffic.items() if axis in HIDDEN_AXES)
    waited = max(0.0, behind - computing) + sum(each for axis, each in traffic.items() if axis not in HIDDEN_AXES)
    bubble = computing * (found.mesh.get("pp", 1) - 1) / found.microbatches
    return Choice(
        found, 1e3 * computing, 1e3 * waited, 1e3 * bubble, _why(found, memory_nbytes, waited, bubble, computing)
    )


def _why(found: Plan, memory_nbytes: float, waited: float, bubble: float, computing: float) -> str:
    """One sentence: what it holds, what it sends where, and what it waits for."""
    out = [axis for axis in found.mesh if not found.inside_machine(axis)]
    crossing = sum(each.sent_nbytes for each in found.busiest.collectives if each.axis in out)
    sends = f"sends {_gb(found.sent_nbytes)} a step" + (
        f", {_gb(crossing)} of it out of the machine" if crossing else ""
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
    return f"holds {_gb(found.total_nbytes)} of {_gb(memory_nbytes)}, {sends}: {step}"


def _too_large(found: Plan, memory_nbytes: float) -> str:
    kinds = vars(found.fullest.held) | {"buffers": found.fullest.buffers_nbytes}
    most = max(kinds, key=kinds.__getitem__)
    return (
        f"does not fit: {_gb(found.total_nbytes)} a device, {_gb(kinds[most])} of them {most}, "
        f"and {_gb(0.9 * memory_nbytes)} of {_gb(memory_nbytes)} can be used"
    )


def _gb(nbytes: float) -> str:
    return f"{nbytes / 1e9:.3g} GB"
