"""The one number that a chapter is read for, as the landing page shows it: a cell tagged ``payoff`` prints it."""

import html
from dataclasses import dataclass

from ..doors import door
from .tables import marked_up


@door
@dataclass(frozen=True)
class Headline:
    """A `number` as it is said ("1.9×"), `what` it is in a few words, and where it was measured.

    `provenance` is anything that prints as one line. Raises ValueError without a number or words.

    >>> from compile_lab.page import Headline
    >>> Headline("1.9×", "a compiled training step over an eager one", "on an H200")
    1.9×: a compiled training step over an eager one · on an H200
    """

    number: str
    what: str
    provenance: object

    def __post_init__(self) -> None:
        if not (self.number.strip() and self.what.strip()):
            raise ValueError(f"number={self.number!r}, what={self.what!r}: a headline needs a number and what it is")

    def __repr__(self) -> str:
        return f"{self.number}: {self.what} · {self.provenance}"

    def _repr_html_(self) -> str:
        return (
            f'<p class="lab-headline"><strong class="lab-number">{html.escape(self.number)}</strong> '
            f"<span>{marked_up(self.what)}</span> <small>{html.escape(str(self.provenance))}</small></p>"
        )
