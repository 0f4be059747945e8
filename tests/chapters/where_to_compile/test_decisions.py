"""The advice is what the grid's runs say."""

import pytest

from chapters.where_to_compile import decisions, grid
from chapters.where_to_compile.experiments import compile_orders
from compile_lab import recordings

CELLS = compile_orders.recorded(recordings.load("compile_orders").result).cells


@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("spread", [name for name in decisions.SPREADS if name != "TP and DDP"])
def test_no_other_order_of_the_grid_is_better(spread, checkpointing):
    case = decisions.recommended(spread, checkpointing)
    others = decisions.neighbours(CELLS, spread, checkpointing)
    assert CELLS[case].severity <= min((other.severity for other in others), default=3)
    assert CELLS[case].outcome in (grid.RIGHT, grid.SLOW) and not CELLS[case].clip_by_mesh
    assert set(case) <= set(decisions.LINES)
    assert all(tuple(other.steps) != case for other in others)


def test_there_is_no_advice_for_tp_with_ddp():
    with pytest.raises(ValueError, match="take FSDP2 in its place"):
        decisions.recommended("TP and DDP", checkpointing=False)
    assert all(other.outcome == grid.WRONG for other in decisions.neighbours(CELLS, "TP and DDP", False))
