"""Faults of torch that a reader's own step meets, and the switch that fixes each: preflight, judge and report ask here.

What is kept is what one of them can act on; the book's page of known faults has many more.
"""

import re
from dataclasses import dataclass
from typing import Literal

from .doors import door


@dataclass(frozen=True)
class KnownFault:
    """One fault: its number on torch's tracker, the first and the last release that have it, what is wrong in a few
    words that follow "torch 2.13", the option of Inductor's that it hangs on, and what turns that off from outside."""

    number: int
    first: tuple[int, int]
    last: tuple[int, int]
    device: Literal["cuda"]
    wrong: str
    option: str
    environment: str

    @property
    def switch(self) -> str:
        """What turns it off, as code."""
        return f"`torch._inductor.config.{self.option} = False`, or `{self.environment}` in the environment"

    def of(self, version: str) -> bool:
        """Whether a torch of that version has it: ``2.13.0+cpu`` is asked as 2.13."""
        return self.first <= release(version) <= self.last


KNOWN_FAULTS = (
    KnownFault(
        193061,
        (2, 10),
        (2, 14),
        "cuda",
        "leaves gradients unwritten where two layer norms share one parameter on a GPU",
        "triton.mix_order_reduction",
        "TORCHINDUCTOR_MIX_ORDER_REDUCTION=0",
    ),
)


@door
def faults_met(version: str, device: str) -> tuple[KnownFault, ...]:
    """The known faults that a torch of this ``version`` has on a ``device``, "cpu" or "cuda", and that no switch of
    this process has turned off. A torch without such an option is not said to have the fault.

    >>> from compile_lab.known_faults import faults_met
    >>> [fault.number for fault in faults_met("2.13.0", "cuda")], faults_met("2.13.0", "cpu")
    ([193061], ())
    """
    from ._torch.inductor import option_of  # here: preflight can be imported without torch, which it says is missing

    return tuple(each for each in KNOWN_FAULTS if each.device == device and each.of(version) and option_of(each.option))


def release(version: str) -> tuple[int, int]:
    """Of a version the two numbers that features come with: ``2.13.0+cpu`` gives 2, 13."""
    major, minor = re.findall(r"\d+", version)[:2]
    return int(major), int(minor)
