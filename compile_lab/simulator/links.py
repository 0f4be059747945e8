"""How long does a collective take? From a machine's links: NVLink, network cards, and which of them an axis can use.

A ring is as fast as its slowest link. Inside a machine that is NVLink; between machines it is the cards together, for
as many rings are laid as there are cards, and each leaves the machine by a card of its own. A group that has one device
in each machine has the use of one card. NVLink's switch can add by itself (NVLS), from five devices on. Between exactly
two machines an all-reduce goes through a tree that sends half of a ring's bytes over the network.

A message is cut into pieces that follow one another through the group. With latency L, all bytes in a time X, and the
best number of pieces, it takes (√L + √X)²: so a message must be very large until X is nearly all of it. L is small for
an all-reduce, which may take a tree; a gather or a scatter goes around the ring, by as many steps as there are ranks,
less one.

The numbers of the model are few: two shares of the data sheet's rates, and latencies. ``MEASURED`` has what public
measurements say; ``off_by`` holds the model against them.
"""

import json
import math
import pkgutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from ..doors import check_whole, door
from .collectives import Collective
from .meshes import MACHINE

STORED = "measured_links.json"
NVLS_FROM = 5
"""Devices: NCCL lets the switch add from so many on; below, a ring is as fast."""
SWITCH = 0.75
"""What a device gives to the switch in a second, over what it sends in a ring."""
INSIDE_S, ACROSS_S = 4e-6, 12e-6
"""Latency of a tree, for each doubling of the devices inside a machine, and for each of the machines."""
STEP_INSIDE_S, STEP_ACROSS_S = 2e-6, 7.5e-6
"""Latency of a step of a ring that stays inside a machine, and of one that leaves it."""


@door
@dataclass(frozen=True)
class Links:
    """A machine of ``devices`` and ``cards``: what a device sends over NVLink, and a card over the network, a second.

    The rates are those of the data sheet, in one direction; the defaults an H100's or H200's. ``inside`` and ``across``
    are the shares of them that are reached. ``switch``: can NVLink's switch add? ValueError for a rate that is none.

    >>> from compile_lab.simulator.links import Links
    >>> [f"{Links().bytes_per_s('all_gather', 8, in_machine) / 1e9:.0f} GB/s" for in_machine in (8, 1)]
    ['360 GB/s', '45 GB/s']
    """

    nvlink_bytes_per_s: float = 450e9
    card_bytes_per_s: float = 50e9
    inside: float = 0.8
    across: float = 0.9
    switch: bool = True
    cards: int = 8
    devices: int = MACHINE

    def __post_init__(self) -> None:
        for name in ("nvlink_bytes_per_s", "card_bytes_per_s", "inside", "across"):
            if not 0 < (rate := getattr(self, name)) < math.inf:
                raise ValueError(f"Links.{name} is {rate}: a rate is a number above 0; leave it out for the default")
        check_whole("cards", self.cards)
        check_whole("devices", self.devices)

    def __str__(self) -> str:
        return (
            f"{100 * self.inside:.0f} % of {self.nvlink_bytes_per_s / 1e9:g} GB/s a device inside a machine of "
            f"{self.devices}, {100 * self.across:.0f} % of {self.cards} × {self.card_bytes_per_s / 1e9:g} GB/s a "
            "machine between machines"
        )

    def bytes_per_s(self, kind: str, ranks: int, in_machine: int) -> float:
        """What a rank of a group sends a second, with large messages, counted as on a ring ("bus bandwidth").

        ``in_machine`` of the group's ranks are devices of one machine. They have the use of as many of its cards as
        they are of its devices.
        """
        added, ring = kind == "all_reduce", self.inside * self.nvlink_bytes_per_s
        inside = ring
        if added and self.switch and in_machine >= NVLS_FROM:
            inside = SWITCH * ring * 2 * (in_machine - 1) / in_machine
        if ranks <= in_machine:
            return inside
        out = self.across * self.card_bytes_per_s * max(1.0, self.cards * in_machine / self.devices)
        if kind == "send":
            return self.across * self.card_bytes_per_s * max(1.0, self.cards / self.devices)
        if added and -(-ranks // in_machine) == 2:
            return min(inside, out * 2 * (ranks - 1) / ranks)
        return min(ring, out)

    def seconds(self, kind: str, ranks: int, in_machine: int, sent_nbytes: float) -> float:
        """How long one collective takes in which each rank sends so many bytes, counted as on a ring."""
        sending_s = sent_nbytes / self.bytes_per_s(kind, ranks, in_machine)
        machines = -(-ranks // in_machine)
        step_s = STEP_ACROSS_S if machines > 1 else STEP_INSIDE_S
        if kind == "send":
            return step_s + sending_s
        latency_s = (ranks - 1) * step_s
        if kind == "all_reduce":
            latency_s = INSIDE_S * (1 + math.log2(in_machine)) + ACROSS_S * math.log2(machines)
        return (math.sqrt(latency_s) + math.sqrt(sending_s)) ** 2


NVLINK_GB_PER_S = {"A100": 300, "B200": 900, "B300": 900, "GB200": 900}
"""Of the measured chips, in one direction; the others have 450."""


@dataclass(frozen=True)
class Measured:
    """A public measurement: of which source, on what, how long a collective of ``nbytes`` took."""

    source: str
    series: int
    chip: str
    kind: str
    ranks: int
    in_machine: int
    links: Links
    nbytes: int
    seconds: float

    @property
    def machines(self) -> int:
        return -(-self.ranks // self.in_machine)

    @property
    def sent_nbytes(self) -> int:
        return Collective(self.kind, "", self.ranks, 1, self.nbytes).sent_nbytes

    @property
    def planned_s(self) -> float:
        """What the model says."""
        return self.links.seconds(self.kind, self.ranks, self.in_machine, self.sent_nbytes)

    @property
    def off_by(self) -> float:
        """Of the measured time: 0.1 if the model says a tenth more."""
        return self.planned_s / self.seconds - 1


@cache
def measured() -> tuple[Measured, ...]:
    """Public measurements of collectives, with their sources: 4 to 2,160 GPUs, with nccl-tests.

    Left out is what no data sheet says the links of, what was measured on a broken fabric, and with an algorithm that
    was forced. The rows of a series are sizes of one collective on one group.
    """
    return tuple(_rows(json.loads(pkgutil.get_data(__package__, STORED) or b"")))


def _rows(stored: dict) -> Iterator[Measured]:
    for number, each in enumerate(stored["series"]):
        chip = each["chip"]
        links = Links(
            1e9 * NVLINK_GB_PER_S.get(chip, 450),
            1e9 * each.get("card_gb_per_s", 50),
            switch=chip != "A100" and not each.get("rings_only", False),
            cards=each.get("cards", each["devices"]),
            devices=each["devices"],
        )
        what = each["kind"], each["ranks"], each["in_machine"], links
        for nbytes, us in each["rows"]:
            yield Measured(stored["sources"][each["source"]], number, chip, *what, nbytes, 1e-6 * us)
