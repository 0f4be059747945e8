"""The grid as a reader sees it."""

import pytest

from chapters.where_to_compile import decisions, grid, view
from chapters.where_to_compile.experiments import compile_orders
from chapters.where_to_compile.grid import BLOCK
from compile_lab import recordings

KEPT = recordings.load("compile_orders")
CELLS = compile_orders.recorded(KEPT.result).cells


def test_the_picture_counts_every_order_once():
    drawn = view.overview(CELLS, KEPT.provenance)
    assert drawn.alt.startswith(f"Of {len(CELLS)} orders, ")
    counts = [cell for row in drawn.table.rows for cell in row[1:] if cell]
    assert sum(counts) == len(CELLS)


@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("spread", list(decisions.SPREADS))
def test_advice_has_the_order_its_lines_and_the_evidence(spread, checkpointing):
    parts = view.advice(CELLS, spread, checkpointing)
    if spread == "TP and DDP":
        assert "take FSDP2 in its place" in parts[0]
        return
    cell = CELLS[decisions.recommended(spread, checkpointing)]
    assert parts[0] == f"**{cell.order}**" and cell.verdict[1] in parts[2]
    assert ("AC" in cell.steps) == ("checkpoint_wrapper" in parts[1].source) == checkpointing
    assert bool(cell.clip) == any("mesh by mesh" in str(part) for part in parts)


def test_tables_have_a_row_for_each():
    some = list(CELLS.values())[:5]
    for table in (view.numbers(some), view.names(some), view.clipping(some), view.orders(some)):
        assert len(table.rows) == 5
    assert "as it was" in repr(view.names([CELLS[BLOCK,]]))
    assert any(cell.outcome == grid.SLOW and "only the blocks" in repr(view.orders([cell])) for cell in CELLS.values())
