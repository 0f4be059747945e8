"""A skewed router as it is seen: who computes, who sends, who waits."""

from __future__ import annotations

from ..page.axes import Range
from ..page.figures import Drawing
from ..page.marks import Axis, Row, segments
from .experts import REMEDIES, Load, expert_loads

COLOURS = {
    "of its own tokens": "blue",
    "of other ranks' tokens": "sky",
    "padding": "grey",
    "waits": "orange",
    "dispatch": "green",
    "combine": "purple",
}


def axes() -> dict[str, tuple[str, ...] | Range]:
    """The controls of `skew_panel`."""
    return {
        "ranks": ("4", "2", "8"),
        "experts_a_token": ("8", "2", "1"),
        "remedy": REMEDIES,
        "skew": Range(0, 2, 0.6, 0.1),
    }


def skew_panel(ranks: str, experts_a_token: str, remedy: str, skew: float) -> list[str | Drawing]:
    """64 experts over some ranks: what each computes and sends, in parts of the even share; ValueError as the model."""
    loads, dropped = expert_loads(skew, int(ranks), choices=int(experts_a_token), remedy=remedy)
    return [summary(loads, dropped), rows(loads)]


def summary(loads: list[Load], dropped: float) -> str:
    """The fullest rank, how long the others wait for it, and what is lost."""
    most = max(each.computed for each in loads)
    mean = sum(each.computed for each in loads) / len(loads)
    padding = sum(each.padding for each in loads) / sum(each.computed for each in loads)
    lost = (
        f" {dropped:.0%} of the assignments are dropped, and {padding:.0%} of the rows are padding." if padding else ""
    )
    if most < 1.005 * mean:
        return f"Every rank computes the same, {most:.2f} of the even share, and nobody waits.{lost}"
    least = min(each.computed for each in loads)
    return (
        f"The fullest rank computes **{most / mean:.2f} times the mean**, and the emptiest one waits for it "
        f"**{1 - least / most:.0%}** of the experts' time; on average, ranks wait {1 - mean / most:.0%}.{lost}"
    )


def rows(loads: list[Load]) -> Drawing:
    """Rows that each rank computes, how long it waits for the fullest one, and the rows that it sends."""
    drawn, most = [], max(each.computed for each in loads)
    for rank, each in enumerate(loads):
        parts = {"of its own tokens": each.own, "of other ranks' tokens": each.received, "padding": each.padding}
        parts["waits"] = most - each.computed
        shown = {name: part for name, part in parts.items() if part > 0.005}
        drawn.append(Row(f"rank {rank}", shown, group="computes, and waits", after=f"{each.computed:.2f}"))
    for rank, each in enumerate(loads):
        parts = {"dispatch": each.dispatched, "combine": each.received}
        drawn.append(Row(f"rank {rank}", parts, group="sends", after=f"{each.sent:.2f}"))
    busiest = max(range(len(loads)), key=lambda rank: loads[rank].sent)
    used = {part.series for row in drawn for part in row.segments()}
    return segments(
        drawn,
        Axis("rows, the even share is 1", "×", until=len(loads)),
        title=f"Rank 0 computes {loads[0].computed:.2f} even shares; rank {busiest} sends the most.",
        colours={name: colour for name, colour in COLOURS.items() if name in used},
    )
