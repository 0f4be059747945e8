"""Steps of real ranks, and the order of collectives in compiled code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from compile_lab.devices.steps import StepRun, slowest
from compile_lab.page.tables import Cell, Table


def order_table(several: Mapping[str, Sequence[Sequence[str]]]) -> Table:
    """One row a name and graph, forward and backward, with the order as one line of text."""
    graphs = ("forward", "backward")
    rows = [
        (name, graph, " ".join(tokens))
        for name, found in several.items()
        for graph, tokens in zip(graphs, found, strict=False)
    ]
    return Table(["", "graph", "order"], rows)


def steps(several: Mapping[str, Sequence[StepRun]], caption: str = "", folded: str = "") -> Table:
    """Steps on real ranks, from one StepRun a rank: the slowest one's median and quartiles; exposed and hidden by rank.

    A dash where nothing is sent. With `folded` it waits behind that line.
    """
    rows: list[tuple[Cell, ...]] = []
    for name, ranks in several.items():
        run = slowest(ranks)
        spread = f"{run.low_ms:.1f} to {run.high_ms:.1f}"
        sent = [each.overlap for each in ranks if each.overlap.intervals]
        exposed = " / ".join(f"{each.exposed_ms:.1f}" for each in sent) or None
        hidden = " / ".join(f"{100 * each.fraction:.0f} %" for each in sent) or None
        count = len(sent[0].intervals) if sent else 0
        rows.append((name, count, f"{run.step_ms:.1f}", spread, exposed, hidden))
    columns = ["", "collectives", "step, ms", "half of the steps", "exposed, ms, by rank", "hidden, by rank"]
    return Table(columns, rows, caption, align="lrrrrr", folded=folded)
