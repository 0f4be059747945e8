"""A measurement that a room offers: its row in the registry."""

from dataclasses import dataclass

OUT_OF_TIME = "not begun: the recording's time was used up"
"""Why there is nothing of a part: what a recording says of what its budget did not allow."""


@dataclass(frozen=True)
class Experiment:
    """What a measurement answers, and about how many seconds it takes on a large GPU.

    ``on_cpu``: it is of the CPU, on any machine; the seconds are those of two idle cores.
    ``module``: the one whose `record` measures it; the registry knows it by the row's place.
    """

    answers: str
    takes_s: float
    on_cpu: bool = False
    module: str = ""
