"""Which sharding pattern should I take? ``recommend`` lays a model out in every way, and ranks those that fit.

A step is as long as its device works or as its program takes to issue it, whichever is longer (``host``). The device
computes, and sends over the links that each message crosses (``links``). Rates are assumed, in ``Network``, and six
rules. Traffic of gradients and parameters hides behind the computation as far as that lasts, but not for nothing: it
slows what it hides behind. What tensor parallel and a pipeline send is waited for, and so are the rows that travel to
experts. A collective has a least time. Tensor parallel leaves a part of each layer undivided. A pipeline is as slow as
its last stage, which has the head, and adds up gradients once a micro-batch. Chapter 11 holds the estimates against
GPUs, but none of experts, of which all are taken to have as much to do.
"""

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass

from ..doors import PrintedRepr, door
from ..page.units import in_gb, percent, significant
from .host import HostRates, issue_s
from .links import Links
from .meshes import DATA_AXES, PATTERNS, compared
from .patterns import PRECISIONS, Plan, plan
from .sharding import Shape, experts_of, parameter_count
from .traffic import FP32

RANKED = tuple(name for name in PATTERNS if name not in ("one device", "pp+tp"))
"""What several devices choose among. A pipeline of tensor parallel alone does not split the batch: with 3d it can.
Of a model with experts also "ep", and no pattern that slices an MLP."""

USABLE = 0.9
"""Of a card's memory: the rest is for what a plan does not count."""


@door
@dataclass(frozen=True)
class Network:
    """Assumed rates of one device: its links, its FLOP/s, and the bytes a second of its memory.

    The defaults are those of a machine of eight H100 or H200 with a network card for each: `Links`, 40 % of the matrix
    rate in bf16, and four fifths of the memory's bandwidth, at which the optimizer goes over what it updates. The
    others are rounded from
    recordings on two H200: floor_s, a collective's least time, however little it sends; hidden, the share of hidden
    traffic's time by which it lengthens the computation; repeated, the share of the work that every device of a
    tensor-parallel group does whole; host, the program's rates, None if it is never late. ValueError for a rate that
    is none.

    >>> from compile_lab.simulator import Network, recommend
    >>> from compile_lab.simulator.explored_view import MODELS
    >>> networks = Network(), Network(host=None)
    >>> [round(recommend(MODELS["124 M"], 8, 80e9, network=each).choices[0].step_ms) for each in networks]
    [23, 6]
    """

    links: Links = Links()  # noqa: RUF009, for it is frozen
    flop_per_s: float = 400e12
    memory_bytes_per_s: float = 2.7e12
    floor_s: float = 40e-6
    hidden: float = 0.9
    repeated: float = 0.2
    host: HostRates | None = HostRates()  # noqa: RUF009, for it is frozen

    def __post_init__(self) -> None:
        for name in ("flop_per_s", "memory_bytes_per_s"):
            if not 0 < (rate := getattr(self, name)) < math.inf:
                raise ValueError(f"Network.{name} is {rate}: a rate is a number above 0; leave it out for the default")
        for name in ("floor_s", "hidden", "repeated"):
            if not 0 <= (part := getattr(self, name)) < math.inf:
                raise ValueError(f"Network.{name} is {part}: it is 0 or more; leave it out for the default")

    def __str__(self) -> str:
        return (
            f"assumed: {self.links}; {self.flop_per_s / 1e12:g} TFLOP/s; "
            f"{1e6 * self.floor_s:g} µs a collective at the least, {percent(self.hidden)} of hidden traffic paid, "
            f"{percent(self.repeated)} of the work undivided under tp; "
            + (f"{1e3 * self.host.layer_s:.2g} ms of Python a layer" if self.host else "a program that is never late")
        )


@dataclass(frozen=True)
class Choice:
    """A plan that fits, and its estimated step: the device's time spent computing, for messages that it waits for or
    that slow it, in a bubble, and in the optimizer; and the time in which the program issues it all, 0 if that is never
    late."""

    plan: Plan
    compute_ms: float
    exposed_ms: float
    bubble_ms: float
    update_ms: float
    issued_ms: float
    why: str

    @property
    def device_ms(self) -> float:
        return self.compute_ms + self.exposed_ms + self.bubble_ms + self.update_ms

    @property
    def step_ms(self) -> float:
        return max(self.device_ms, self.issued_ms)

    def __str__(self) -> str:
        return f"{self.plan.pattern}: {self.why}"


@dataclass(frozen=True, repr=False)
class Recommendation(PrintedRepr):
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
    checkpointing: bool | None = None,
    network: Network | None = None,
) -> Recommendation:
    """The patterns that fit on ``devices`` of ``memory_nbytes`` each, the shortest estimated step first.

    ``batch``, ``length``, ``precision``, ``optimizer`` and ``checkpointing`` as in ``patterns.plan``, but None takes
    checkpoints where a pattern does not fit without. What has to fit is the peak, a step's largest moment. A tenth of
    the memory is left for what a plan does not count: temporaries, fragmentation.

    Raises ValueError for a memory that is not positive, and as ``plan`` for a precision or optimizer it does not know.

    >>> from compile_lab.simulator import recommend
    >>> from compile_lab.simulator.explored_view import MODELS
    >>> found = recommend(MODELS["7 B"], 8, 80e9)
    >>> found.choices[0].plan.pattern, round(found.choices[0].step_ms), found.refused["ddp"].partition(",")[0]
    ('fsdp', 380, 'does not fit: 151 GB a device')
    """
    if not memory_nbytes > 0:  # nor for NaN
        raise ValueError(f"memory_nbytes={memory_nbytes}: a device's memory in bytes is more than 0")
    network = network or Network()
    planned = functools.partial(plan, length=length, precision=precision, optimizer=optimizer)
    tried = (False, True) if checkpointing is None else (checkpointing,)
    planned(shape, "one device", 1, checkpointing=tried[0])  # refuses these before any pattern does
    choices, refused = [], {}
    several = [name for name in compared(shape) if name in (*RANKED, "ep")]
    for pattern in ["one device"] if devices == 1 else several:
        try:
            candidates = [planned(shape, pattern, devices, batch=batch, checkpointing=each) for each in tried]
        except ValueError as error:
            refused[pattern] = f"does not divide: {error}"
            continue
        fitting = [each for each in candidates if each.peak_nbytes <= USABLE * memory_nbytes]
        if fitting:
            choices.append(estimate(fitting[0], memory_nbytes, network))
        else:
            refused[pattern] = _too_large(candidates[-1], memory_nbytes)
    ranked = sorted(choices, key=lambda choice: (choice.step_ms, choice.plan.peak_nbytes))
    return Recommendation(tuple(ranked), refused, str(network))


@door
def compute_s(plan: Plan, network: Network) -> float:
    """Seconds that a device computes in a step, if all devices share the work equally.

    With checkpointing the layers' forward comes twice.

    >>> from compile_lab.simulator import Network, compute_s, plan
    >>> from compile_lab.simulator.explored_view import MODELS
    >>> [round(compute_s(plan(MODELS["7 B"], "fsdp", each, batch=64), Network()), 2) for each in (8, 16, 32)]
    [1.82, 0.91, 0.45]
    """
    return (model_flop(plan) + again_flop(plan)) / plan.devices / network.flop_per_s


def model_flop(plan: Plan) -> float:
    """Operations of a step that the model asks for, on all devices together.

    For each token 6 operations a parameter that it is computed with, and 12 · layers · dim · length for attention
    (Chowdhery et al., 2022).
    """
    shape = plan.shape
    per_token = 6 * parameter_count(shape, active=True) + 12 * shape.layers * shape.dim * plan.length
    return per_token * plan.batch * plan.length


def again_flop(plan: Plan) -> float:
    """Operations of a step that are done again because of checkpointing: the layers' forward, a third of their work."""
    shape = plan.shape
    per_token = 2 * parameter_count(shape, active=True, part="block") + 4 * shape.layers * shape.dim * plan.length
    return per_token * plan.batch * plan.length if plan.checkpointing else 0


def update_s(plan: Plan, network: Network) -> float:
    """Seconds in which the fullest device's optimizer reads parameters, gradients and state, and writes the first and
    the last: a device with a slice of them has less to do."""
    held = [share.held for share in plan.stages]
    return max(2 * each.parameters + each.gradients + 2 * each.optimizer for each in held) / network.memory_bytes_per_s


def accumulate_s(plan: Plan, network: Network) -> float:
    """Seconds in which a pipeline's device adds what each micro-batch gives to the gradients of those before it.

    For each parameter a matmul writes a number as it computes, which is read and written in fp32 and added: read twice,
    written once. Of the first micro-batch nothing is added; what one device does, too, is left out.
    """
    if plan.mesh.get("pp", 1) == 1:
        return 0.0
    numbers = max(share.held.parameters for share in plan.stages) / FP32 * plan.mesh.get("shard", 1)  # whole until sent
    computed = PRECISIONS[plan.precision].computed
    each = 3 * FP32 + (2 * computed + FP32 if computed < FP32 else FP32)
    return (plan.microbatches - 1) * each * numbers / network.memory_bytes_per_s


def last_stage(plan: Plan) -> float:
    """How many times the mean the last stage of a pipeline computes: it has the head besides its layers."""
    shape, stages = plan.shape, plan.mesh.get("pp", 1)
    mixed = experts_of(shape)
    mlp = 2 * shape.dim * mixed.width * mixed.choices if mixed else 8 * shape.dim**2
    layer, head = 4 * shape.dim**2 + mlp + 2 * shape.dim * plan.length, shape.dim * shape.vocabulary
    return (shape.layers * layer / stages + head) / ((shape.layers * layer + head) / stages)


def traffic_s(plan: Plan, network: Network) -> dict[str, float]:
    """For each axis, the seconds that the busiest device spends in its collectives of a step."""
    return {axis: axis_s(plan, axis, network, plan.in_machine(axis)) for axis in plan.mesh}


def axis_s(plan: Plan, axis: str, network: Network, in_machine: int, kind: str | None = None) -> float:
    """Seconds that the busiest device spends along an axis of which so many ranks are devices of one machine.

    A collective takes as long as the links need, and no less than its least time. Of one ``kind`` only, or of all.
    """
    return sum(
        each.count
        * max(network.floor_s, network.links.seconds(each.kind, each.ranks, in_machine, each.sent_nbytes / each.count))
        for each in plan.busiest.collectives
        if each.axis == axis and kind in (None, each.kind)
    )


def estimate(plan: Plan, memory_nbytes: float, network: Network) -> Choice:
    """How long a step of a plan takes under the assumptions at the head of this module, and why."""
    undivided = 1 + network.repeated * (plan.mesh.get("tp", 1) - 1)
    computing = compute_s(plan, network) * last_stage(plan) * undivided + accumulate_s(plan, network)
    traffic = traffic_s(plan, network)
    exchanged = sum(axis_s(plan, axis, network, plan.in_machine(axis), "all_to_all") for axis in plan.mesh)
    behind = sum(each for axis, each in traffic.items() if axis in DATA_AXES) - exchanged
    waited = max(network.hidden * behind, behind - computing) + exchanged
    waited += sum(each for axis, each in traffic.items() if axis not in DATA_AXES)
    bubble = computing * (plan.mesh.get("pp", 1) - 1) / plan.microbatches
    update = update_s(plan, network)
    issued = issue_s(plan, network.host) if network.host else 0.0
    why = _why(plan, memory_nbytes, waited, bubble, computing + waited + bubble + update, issued)
    return Choice(plan, 1e3 * computing, 1e3 * waited, 1e3 * bubble, 1e3 * update, 1e3 * issued, why)


def _why(plan: Plan, memory_nbytes: float, waited: float, bubble: float, device: float, issued: float) -> str:
    """One sentence: what a device holds, what it sends and where, and what it waits for."""
    out = [axis for axis in plan.mesh if not plan.inside_machine(axis)]
    crossing = sum(each.sent_nbytes for each in plan.busiest.collectives if each.axis in out)
    sends = f"sends {in_gb(plan.sent_nbytes)} a step" + (
        f", {in_gb(crossing)} of it out of the machine" if crossing else ""
    )
    waits = [
        f"{percent(share)} of it {what}"
        for share, what in ((waited / device, "for messages"), (bubble / device, "in the bubble"))
        if share >= 0.005
    ]
    if issued > device:
        waits = [f"which Python takes to issue it, for a device that needs {significant(1e3 * device)}"]
    step = f"a step of {significant(1e3 * max(device, issued))} ms, {' and '.join(waits) or 'with all traffic hidden'}"
    holds = f"holds {in_gb(plan.peak_nbytes)} of {in_gb(memory_nbytes)}"
    return f"{holds}{' with checkpoints' if plan.checkpointing else ''}, {sends}: {step}"


def _too_large(plan: Plan, memory_nbytes: float) -> str:
    fullest = max(plan.stages, key=lambda share: share.peak_nbytes)
    kinds = vars(fullest.held) | {"buffers": fullest.buffers_nbytes}
    most = max(kinds, key=kinds.__getitem__)
    return (
        f"does not fit: {in_gb(plan.peak_nbytes)} a device, {in_gb(kinds[most])} of them {most}, "
        f"and {in_gb(USABLE * memory_nbytes)} of {in_gb(memory_nbytes)} can be used"
    )
