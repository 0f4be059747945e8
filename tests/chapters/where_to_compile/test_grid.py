"""Orders of wrapping: what a run says of each, and that it is what was recorded."""

from dataclasses import replace

import pytest
import torch

from chapters.where_to_compile import grid
from chapters.where_to_compile.experiments import compile_orders
from chapters.where_to_compile.grid import BLOCK, BLOCK_OF, FULL, MODEL, Cell
from compile_lab import recordings

SAMPLE = [
    (BLOCK,),
    (BLOCK, "AC"),
    (BLOCK_OF, "TP"),
    ("FSDP2", MODEL),
    ("FSDP2", "AC", BLOCK),
    ("FSDP2", FULL),
]
"""One of each kind of outcome that a run on two ranks has."""
KEPT = recordings.load("compile_orders")
CELLS = compile_orders.recorded(KEPT.result).cells
of_its_torch = pytest.mark.skipif(
    torch.__version__.split("+")[0] != KEPT.provenance.torch.split("+")[0], reason="recorded with another torch"
)


def compared(cell):
    """What has to be the same in each run: all but rounding."""
    return replace(cell, wrong_by=0.0, error=cell.error[:60], steps=tuple(cell.steps))


@pytest.mark.slow
@of_its_torch
@pytest.mark.processes
def test_a_sample_is_as_it_was_recorded():
    found = grid.run(SAMPLE)
    assert [compared(cell) for cell in found] == [compared(CELLS[case]) for case in SAMPLE]
    assert len({cell.verdict for cell in found}) == len(SAMPLE)


@of_its_torch
@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.parametrize(("cases", "shape"), [(grid.ONE_AXIS, (2,)), (grid.TWO_AXES, (2, 2))], ids=["two", "four"])
def test_the_whole_grid_is_as_it_was_recorded(cases, shape):
    found = {cell.steps: compared(cell) for cell in grid.run(cases, shape)}
    assert found == {case: compared(CELLS[case]) for case in cases}


def test_each_order_stands_once_in_the_grid_and_in_the_recording():
    every = [*grid.ONE_AXIS, *grid.TWO_AXES]
    assert len(every) == len(set(every)) > 40 and list(CELLS) == every
    steps = {"TP", "SP", "AC", "budget", "FSDP2", "DDP", *grid.COMPILES}
    assert {step for case in every for step in case} == steps


def test_gradients_that_differ_are_wrong_and_that_is_worse_than_an_error():
    right, slow = Cell((BLOCK,), forward_runs=2), Cell((BLOCK,))
    error, wrong = Cell((BLOCK,), error="no"), Cell((BLOCK,), forward_runs=2, wrong_by=0.5)
    assert wrong.outcome == grid.WRONG and "0.5" in wrong.verdict[1]
    assert sorted([wrong, error, slow, right], key=lambda cell: cell.severity) == [right, slow, error, wrong]
