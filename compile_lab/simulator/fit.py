"""Will it fit, and how fast would it be? A plan on a chip: memory by kind, a step's time, MFU and tokens a second.

Memory is ``patterns.plan``'s, time ``recommendation.estimate``'s, at rates that follow from the chip's data sheet and
three assumptions, which stand in `Assumed`. ``Fit.deciding`` says which of them the answer hangs on. The program is
taken to issue its work in time, as a compiled one with much to do does; chapter 11 has the other case.
"""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from ..doors import check_whole, door
from .links import Links
from .meshes import compared
from .patterns import Plan, Share, plan
from .recommendation import USABLE, Choice, Network, estimate, model_flop, recommend
from .sharding import Shape


@dataclass(frozen=True)
class Card:
    """A card's memory, its dense matrix rates by precision, and what it can send a second, from its data sheet.

    ``inside`` is NVLink, in one direction; ``across`` the network card beside it, of which a machine has one for each
    device. ``switch``: can NVLink's switch add? fp32 means TF32 in matmuls.
    """

    memory_gb: float
    tflop_per_s: Mapping[str, float]
    inside_gb_per_s: float
    across_gb_per_s: float
    memory_tb_per_s: float
    switch: bool = True


CHIPS = {
    "A100 40 GB": Card(40, {"bf16": 312, "fp32": 156}, 300, 25, 1.555, switch=False),
    "A100 80 GB": Card(80, {"bf16": 312, "fp32": 156}, 300, 25, 2.039, switch=False),
    "H100": Card(80, {"bf16": 989, "fp32": 494}, 450, 50, 3.35),
    "H200": Card(141, {"bf16": 989, "fp32": 494}, 450, 50, 4.8),
    "B200": Card(180, {"bf16": 2250, "fp32": 1125}, 900, 50, 8.0),
}
MEMORY_SHARE = 0.8
"""Of the memory's bandwidth: what an optimizer reaches that only reads and writes."""
BEST = "the best that fits"


@dataclass(frozen=True)
class Assumed:
    """Shares of the data sheet's rates that a step reaches: of the matrix rate, of NVLink, of the network card."""

    matrix: float = 0.4
    inside: float = 0.8
    across: float = 0.9

    def network(self, chip: Card, precision: str) -> Network:
        links = Links(1e9 * chip.inside_gb_per_s, 1e9 * chip.across_gb_per_s, self.inside, self.across, chip.switch)
        memory = 1e12 * MEMORY_SHARE * chip.memory_tb_per_s
        return Network(links, 1e12 * chip.tflop_per_s[precision] * self.matrix, memory, host=None)


@dataclass(frozen=True)
class Fit:
    """A plan on a chip, and its estimated step."""

    plan: Plan
    chip: Card
    assumed: Assumed

    @cached_property
    def choice(self) -> Choice:
        network = self.assumed.network(self.chip, self.plan.precision)
        return estimate(self.plan, 1e9 * self.chip.memory_gb, network)

    @property
    def share(self) -> Share:
        return self.plan.fullest

    @property
    def fits(self) -> bool:
        return self.plan.peak_nbytes <= USABLE * 1e9 * self.chip.memory_gb

    @property
    def step_s(self) -> float:
        return self.choice.step_ms / 1e3

    @property
    def mfu(self) -> float:
        """Model FLOPs utilisation: what the model asks for, over what all chips could do in the time of a step."""
        peak = 1e12 * self.chip.tflop_per_s[self.plan.precision]
        return model_flop(self.plan) / (self.step_s * self.plan.devices * peak)

    @property
    def tokens_per_s(self) -> float:
        """On all devices together."""
        return self.plan.batch * self.plan.length / self.step_s

    @cached_property
    def slower(self) -> dict[str, float]:
        """How many times as long a step takes if one of the assumed shares is half of it."""
        return {
            name: replace(self, assumed=replace(self.assumed, **{name: value / 2})).step_s / self.step_s
            for name, value in vars(self.assumed).items()
        }

    @property
    def deciding(self) -> str:
        """The assumption on which the step's time hangs most."""
        return max(self.slower, key=self.slower.__getitem__)


@door
def fit(
    shape: Shape,
    pattern: str,
    devices: int,
    chip: str = "H100",
    *,
    batch: int | None = None,
    length: int | None = None,
    precision: str = "bf16",
    checkpointing: bool = False,
    assumed: Assumed | None = None,
) -> Fit:
    """What a model would need and do on so many chips of `CHIPS`, under a pattern, or under the best that fits.

    The rest as in ``plan``. One device takes any pattern, for there is nothing to divide. If nothing fits, `BEST` is
    what holds least. Raises ValueError as ``plan``, for a chip that is not known, for shares that are not above 0 and
    at most 1, and where no pattern divides the model.

    >>> from compile_lab.simulator.explored_view import MODELS
    >>> from compile_lab.simulator.fit import fit
    >>> found = fit(MODELS["7 B"], "fsdp", 8, "H100")
    >>> found.fits, round(found.tokens_per_s), round(found.mfu, 2), found.deciding
    (True, 42869, 0.24, 'matrix')
    """
    check_whole("devices", devices)
    if chip not in CHIPS:
        raise ValueError(f"chip={chip!r} is not known; it is one of {', '.join(map(repr, CHIPS))}")
    assumed = assumed or Assumed()
    for name, value in vars(assumed).items():
        if not 0 < value <= 1:
            raise ValueError(f"{name}={value}: an assumed share of a rate is above 0 and at most 1")
    planned = functools.partial(plan, batch=batch, length=length, precision=precision, checkpointing=checkpointing)
    if devices == 1:
        pattern = "one device"
    elif pattern == BEST:
        if precision not in CHIPS[chip].tflop_per_s:
            planned(shape, "one device", 1)  # refuses it by name
        network = assumed.network(CHIPS[chip], precision)
        ranked = functools.partial(recommend, batch=batch, length=length, precision=precision, network=network)
        found = ranked(shape, devices, 1e9 * CHIPS[chip].memory_gb, checkpointing=checkpointing)
        pattern = found.choices[0].plan.pattern if found.choices else _least(shape, devices, planned)
    return Fit(planned(shape, pattern, devices), CHIPS[chip], assumed)


def _least(shape: Shape, devices: int, planned: Callable[..., Plan]) -> str:
    """The pattern that holds least."""
    held, why = {}, ""
    for name in compared(shape):
        try:
            held[name] = planned(shape, name, devices).peak_nbytes
        except ValueError as error:
            why = str(error)
    if not held:
        raise ValueError(f"no pattern divides this model among {devices} devices; the last one says: {why}")
    return min(held, key=held.__getitem__)
