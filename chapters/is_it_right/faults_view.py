"""Known faults as a reader sees them: a card for each, with the program, and what each torch makes of it."""

import html
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from compile_lab.doors import door
from compile_lab.page.tables import Code, Table, marked_up

from .faults.catalogue import LADDER, RIGHT, WRONG, Fault
from .faults.kept import FAULTS, fate

Board = Mapping[str, Mapping[str, Any]]
"""What ``book/tools/known_faults.py`` keeps of each torch, by its version (and its GPU): each fault's outcomes."""
FATES = {WRONG: "wrong", "raises": "refused with an error", RIGHT: "right"}


@door
@dataclass(frozen=True)
class FaultCard:
    """One fault, folded: its title and what became of it in each torch; inside, the program, backend by backend.

    >>> from chapters.is_it_right.faults import FAULTS
    >>> from chapters.is_it_right.faults_view import FaultCard
    >>> FaultCard(FAULTS[186281], {"2.13.0": {"faults": {"186281": {"eager": "right", "inductor": "wrong"}}}})
    x * 0 becomes 0 where x is NaN (pytorch#186281): torch 2.13.0 wrong
    """

    fault: Fault
    board: Board

    @property
    def rows(self) -> dict[str, Mapping[str, str]]:
        """The outcomes by torch, for those torches that ran it."""
        number = str(self.fault.number)
        return {version: kept["faults"][number] for version, kept in self.board.items() if number in kept["faults"]}

    def __repr__(self) -> str:
        fates = ", ".join(f"torch {version} {fate(row)}" for version, row in self.rows.items())
        return f"{self.fault.title} ({self.fault.label}): {fates}"

    def _repr_html_(self) -> str:
        fates = {version: fate(row) for version, row in self.rows.items()}
        told = " · ".join(f"{version.removesuffix('.0')} <b>{word}</b>" for version, word in fates.items())
        number, kinds = self.fault.number, " ".join(dict.fromkeys(fates.values()))
        return (
            f'<details class="lab-break lab-fault" id="fault-{number}" data-kind="{kinds}">'
            f'<summary>{marked_up(self.fault.title)} <span class="lab-note">torch {told}</span></summary>'
            f"{''.join(self._inside())}</details>"
        )

    def _inside(self) -> list[str]:
        parts = [Code(self.fault.source)._repr_html_(), self.table._repr_html_()]
        for version, kept in self.board.items():
            if named := kept.get("bisector", {}).get(str(self.fault.number)):
                parts.append(f"<p>torch's bisector names, in {version}: <code>{html.escape(named)}</code></p>")
            if said := kept.get("minifier", {}).get(str(self.fault.number)):
                parts.append(f"<p>torch's minifier, in {version}, {html.escape(said)}.</p>")
        if self.fault.cure:
            parts.append(f"<p>What helps: {marked_up(self.fault.cure)}</p>")
        source = f'<a href="{self.fault.address}">{self.fault.label}</a>'
        parts.append(f"<p>Reported as {source}; rebuilt in our words.</p>")
        return parts

    @property
    def table(self) -> Table:
        """Backend by backend, a column for each torch."""
        backends = list(dict.fromkeys([*LADDER, *(backend for row in self.rows.values() for backend in row)]))
        rows = [(each, *(row.get(each, "not run") for row in self.rows.values())) for each in backends]
        return Table(["backend", *(f"torch {version}" for version in self.rows)], rows)


def counted(board: Board) -> Table:
    """Of each torch: how many of the programs it compiles wrong, refuses, and compiles right."""
    rows = []
    for version, kept in board.items():
        fates = Counter(map(fate, kept["faults"].values()))
        rows.append((f"torch {version}", *(fates[each] for each in FATES), kept["provenance"]["date"]))
    return Table(["", *FATES.values(), "run on"], rows, align="lrrrl")


def by_stage(board: Board) -> dict[str, list[FaultCard]]:
    """A card for each fault, by stage; what the newest torch still has wrong comes first."""
    cards: dict[str, list[FaultCard]] = {}
    for each in FAULTS.values():
        cards.setdefault(each.stage, []).append(FaultCard(each, board))
    order = (WRONG, "raises", RIGHT)
    for found in cards.values():
        found.sort(key=lambda card: [order.index(fate(row)) for row in reversed(card.rows.values())])
    return cards
