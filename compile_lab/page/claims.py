"""Was the claim true? A verdict that a cell prints from its own result, so that they can be gathered from the book.

A verdict says yes or no. A claim that is true here and false there is split into parts that are one or the other.
"""

import re
import string
from dataclasses import dataclass

from ..doors import door
from .tables import marked_up

VERDICTS = ("confirmed", "refuted")
_PRINTED = re.compile(rf"^(C\d\d[a-z]?) ({'|'.join(VERDICTS)}): .*\n(.*)$", re.MULTILINE)


def printed(text: str) -> dict[str, tuple[str, str]]:
    """The verdicts in what a cell printed, by number, ``C20`` or ``C20a``: the word, and the line that says why."""
    return {number: (word, why) for number, word, why in _PRINTED.findall(text)}


@door
@dataclass(frozen=True)
class Part:
    """One part of a claim: a sentence that is true or false by itself, whether it holds, where, and what shows it.

    ``condition`` says under what the answer holds (device, torch, sizes), as a sentence begins: "On an H200, in bf16".
    Raises ValueError for a text that is empty or longer than a line: a verdict without its condition or its evidence is
    an opinion.

    >>> from compile_lab.page import Part
    >>> part = Part("An eager forward makes a hundred dispatches", False, "MiniGPT, four layers", "433 were counted.")
    >>> print(part.as_text("C01b"))
    C01b refuted: An eager forward makes a hundred dispatches
    MiniGPT, four layers: 433 were counted.
    """

    claim: str
    holds: bool
    condition: str
    evidence: str

    def __post_init__(self) -> None:
        for name in ("claim", "condition", "evidence"):
            if len(getattr(self, name).strip().splitlines()) != 1:
                raise ValueError(
                    f"{name} is not one line: a verdict says what it judges, under which condition, and why"
                )

    @property
    def verdict(self) -> str:
        return "confirmed" if self.holds else "refuted"

    def as_text(self, number: str) -> str:
        return f"{number} {self.verdict}: {self.claim}\n{self.condition}: {self.evidence}"

    def as_html(self, number: str, kind: str) -> str:
        return (
            f'<div class="{kind} lab-{self.verdict}"><p><strong>{number}, {self.verdict}.</strong> '
            f"<em>{marked_up(self.claim)}.</em></p>"
            f'<p><span class="lab-condition">{marked_up(self.condition)}:</span> {marked_up(self.evidence)}</p></div>'
        )


@door
@dataclass(frozen=True)
class Verdict:
    """What became of a commonly taught claim, as it is worded: confirmed if ``holds``, else refuted.

    Raises ValueError for an empty text, as `Part`.

    >>> from compile_lab.page import Verdict
    >>> Verdict("C07", "Printing a tensor breaks the graph", True, "With torch 2.13", "`print` leaves 2 graphs.")
    C07 confirmed: Printing a tensor breaks the graph
    With torch 2.13: `print` leaves 2 graphs.
    """

    claim_id: str
    claim: str
    holds: bool
    condition: str
    evidence: str

    def __post_init__(self) -> None:
        self._whole  # noqa: B018  # an empty text is told here, where it was written

    @property
    def _whole(self) -> Part:
        return Part(self.claim, self.holds, self.condition, self.evidence)

    def __repr__(self) -> str:
        return self._whole.as_text(self.claim_id)

    def _repr_html_(self) -> str:
        return self._whole.as_html(self.claim_id, "lab-verdict")


@door
class Split:
    """A claim that is neither true nor false as it is worded: its parts, each confirmed or refuted, as C20a, C20b.

    Raises ValueError for fewer than two parts: what is not split is a `Verdict`.

    >>> from compile_lab.page import Part, Split
    >>> Split(
    ...     "C01",
    ...     "An eager forward makes about a hundred dispatches",
    ...     Part("About a hundred operators run below autograd", True, "MiniGPT, four layers", "There are 117."),
    ...     Part("The dispatcher is called about a hundred times", False, "MiniGPT, four layers", "433 times."),
    ... )
    C01, in 2 parts: An eager forward makes about a hundred dispatches
    C01a confirmed: About a hundred operators run below autograd
    MiniGPT, four layers: There are 117.
    C01b refuted: The dispatcher is called about a hundred times
    MiniGPT, four layers: 433 times.
    """

    def __init__(self, claim_id: str, claim: str, *parts: Part) -> None:
        if len(parts) < 2:
            raise ValueError(f"claim {claim_id} has {len(parts)} parts: a split has two or more, else it is a Verdict")
        self.claim_id, self.claim = claim_id, claim
        self.parts = {f"{claim_id}{letter}": part for letter, part in zip(string.ascii_lowercase, parts, strict=False)}

    def __repr__(self) -> str:
        parts = "\n".join(part.as_text(number) for number, part in self.parts.items())
        return f"{self.claim_id}, in {len(self.parts)} parts: {self.claim}\n{parts}"

    def _repr_html_(self) -> str:
        parts = "".join(part.as_html(number, "lab-part") for number, part in self.parts.items())
        return (
            f'<div class="lab-verdict"><p><strong>{self.claim_id}, in {len(self.parts)} parts.</strong> '
            f"<em>{marked_up(self.claim)}.</em></p>{parts}</div>"
        )
