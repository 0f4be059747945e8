"""Was the claim true? A verdict that a cell prints from its own result, so that they can be gathered from the book."""

from collections.abc import Iterable
from dataclasses import dataclass

from ..doors import door
from .tables import marked_up

VERDICTS = ("confirmed", "refined", "refuted")


@door
def judged(parts: Iterable[bool]) -> str:
    """The verdict on a claim with several parts: confirmed if all hold, refined if some do, refuted if none.

    Raises ValueError without any part: a claim that was not tested has no verdict.
    """
    parts = list(parts)
    if not parts:
        raise ValueError("no part of the claim was tested, so there is no verdict")
    return "confirmed" if all(parts) else "refined" if any(parts) else "refuted"


@door
@dataclass(frozen=True)
class Verdict:
    """What became of a commonly taught claim: ``confirmed``, ``refined`` (true when …) or ``refuted``, and why.

    Raises ValueError for any other word: a claim that was not tested has no verdict.
    """

    claim_id: str
    claim: str
    verdict: str
    evidence: str

    def __post_init__(self) -> None:
        if self.verdict not in VERDICTS:
            raise ValueError(f"claim {self.claim_id}: the verdict is one of {VERDICTS}, not {self.verdict!r}")

    def __repr__(self) -> str:
        return f"{self.claim_id} {self.verdict}: {self.claim}\n{self.evidence}"

    def _repr_html_(self) -> str:
        return (
            f'<div class="lab-verdict lab-{self.verdict}"><p><strong>{self.claim_id}, {self.verdict}.</strong> '
            f"<em>{marked_up(self.claim)}.</em></p><p>{marked_up(self.evidence)}</p></div>"
        )
