"""The grid as a reader sees it: how many orders are right, the table of all, and the advice with its evidence."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from compile_lab.page.figures import Drawing
from compile_lab.page.marks import Axis, Row, segments
from compile_lab.page.tables import Code, Table

from .artifacts import Loaded
from .decisions import LINES, SPREADS, neighbours, pattern_of, recommended
from .dtensors import BACKENDS, Outcome
from .grid import ERROR, OUTCOMES, RIGHT, SLOW, TENSOR, WRONG, Case, Cell
from .stages import Run

Cells = Mapping[Case, Cell]
COLOURS = {RIGHT: "green", SLOW: "orange", WRONG: "vermillion", ERROR: "grey"}


def overview(cells: Cells, provenance: object) -> Drawing:
    """How many orders of each kind come out how."""
    found = {name: Counter(one.outcome for case, one in cells.items() if pattern_of(case) == name) for name in SPREADS}
    rows = [
        Row(name, {outcome: count[outcome] for outcome in OUTCOMES if count[outcome]}) for name, count in found.items()
    ]
    total = sum(found.values(), Counter())
    title = (
        f"Of {len(cells)} orders, {total[RIGHT]} do what they say; {total[SLOW]} are slow and "
        f"{total[WRONG]} are wrong without an error; {total[ERROR]} raise one."
    )
    used = {outcome: COLOURS[outcome] for outcome in OUTCOMES if total[outcome]}
    return segments(rows, Axis("orders", ""), title=title, colours=used, provenance=provenance)


def orders(cells: Iterable[Cell], caption: str = "", folded: str = "") -> Table:
    """A row for each case: the order, what becomes of it, and why."""
    rows = [(cell.order, *cell.verdict) for cell in cells]
    return Table(["order", "outcome", "why"], rows, caption, align="lll", folded=folded)


def numbers(cells: Iterable[Cell]) -> Table:
    """What was counted in a step of each case."""
    rows = [(cell.order, cell.nodes_run, cell.forward_runs, cell.breaks, cell.wrong_by < 1e-4) for cell in cells]
    columns = ["order", "calls compiled", "forward graphs run", "breaks counted", "gradients right"]
    return Table(columns, rows, align="lrrrl")


def names(cells: Iterable[Cell]) -> Table:
    """The first name in each state dict that a plain model does not have."""
    rows = [(one.order, *(Code(name) if name else "as it was" for name in (one.name, one.saved_name))) for one in cells]
    return Table(["order", "`state_dict()`", "`get_model_state_dict()`"], rows, align="lll")


def clipping(cells: Iterable[Cell]) -> Table:
    """What `clip_grad_norm_` does in each case, and the same mesh by mesh."""
    rows = [(cell.order, *(each or "right" for each in (cell.clip, cell.clip_by_mesh))) for cell in cells]
    return Table(["order", "`clip_grad_norm_`", "`clip_by_mesh`"], rows, align="lll")


def schedules(runs: Iterable[Run], provenance: object) -> Table:
    """Each schedule over compiled stages: what becomes of the step, and how many matmuls its backwards run."""
    rows = [
        (each.schedule, each.outcome, *(count or None for count in (each.backwards, each.matmuls, each.matmuls_once)))
        for each in runs
    ]
    columns = ["schedule", "outcome", "whole backwards", "matmuls in backwards", "each gradient once"]
    return Table(columns, rows, str(provenance), align="llrrr")


def programs(outcomes: Iterable[Outcome], provenance: object) -> Table:
    """Each program of DTensors, in eager mode and under each backend."""
    words: dict[str, list[str]] = {}
    for each in outcomes:
        words.setdefault(each.program, []).append(each.words)
    return Table(["program", *BACKENDS], [(name, *row) for name, row in words.items()], str(provenance), align="llll")


def loaded(found: Iterable[Loaded], provenance: object) -> Table:
    """What a rank found that had loaded the artifacts of another."""
    rows = [(each.program, each.hits, each.misses, each.right) for each in found]
    return Table(["program", "hits", "misses", "right"], rows, str(provenance), align="lrrl")


def advice(cells: Cells, spread: str, checkpointing: bool) -> list[Any]:
    """The order to write, its lines, what the grid says of it, and what becomes of the others."""
    others = neighbours(dict(cells), spread, checkpointing)
    told = orders(others, "What becomes of the other orders, the worst first") if others else ""
    try:
        case = recommended(spread, checkpointing)
    except ValueError as error:
        return [str(error) + ".", told]
    cell = cells[case]
    parts = [
        f"**{cell.order}**",
        Code("\n".join(LINES[step] for step in case)),
        f"In the grid: {cell.outcome}; {cell.verdict[1]}.",
    ]
    if cell.outcome == SLOW and set(TENSOR) & set(case):
        parts.append("It is the best there is: with checkpointing inside of compile, torch 2.13 raises an error.")
    if cell.clip:
        parts.append("`clip_grad_norm_` fails here; clip mesh by mesh, as below.")
    if cell.name:
        parts.append(
            f"`state_dict()` has names such as `{cell.name}`; save what `get_model_state_dict(model)` returns."
        )
    return [*parts, *([told] if told else [])]
