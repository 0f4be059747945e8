"""Predicted beside measured: numbers, and the name of what makes them differ."""

import pytest

from compile_lab.memory import view as peaks_view
from compile_lab.memory.ledger import Ledger, Tensor
from compile_lab.memory.measured import Allocation, Peak


@pytest.fixture
def step():
    """A product that stays, and at the peak a second one."""
    ledger = Ledger()
    for name in ("mm", "mul"):
        made = Tensor(name, f"aten.{name}", "temporary", (250,), "float32", 1000, -1, 0, None)
        ledger.operation(name, f"aten.{name}", "forward", None, {name: made})
    return ledger.lifetimes()


def measured(step, at="aten.mul", extra=0):
    alive = [Allocation((tensor.op,), tensor.nbytes) for tensor in step.alive_at(step.peak_at)]
    alive += [Allocation((at,), extra)] * bool(extra)
    return Peak("CPU", step.peak_nbytes + extra, None, 0, at, tuple(alive))


def test_an_exact_prediction_has_no_cause_to_name(step):
    ((*numbers, cause),) = peaks_view.predictions([("m", "eager", step, measured(step))]).rows
    assert numbers == ["m", "eager", 2000, 2000, 0, "0.00 %"] and cause == "–"


def test_the_operation_that_makes_the_difference_is_named(step):
    rows = [("m", "eager", step, measured(step, extra=500))]
    rows += [("m", "eager", step, measured(step, at="aten.convolution", extra=500))]
    table = peaks_view.predictions(rows).rows
    assert [row[4:] for row in table] == [
        (500, "20.00 %", "mul +500"),
        (500, "20.00 %", "peaks inside convolution, not at mul"),
    ]


ROW = {
    "model": "mini",
    "batch": 2,
    "precision": "fp32",
    "mode": "eager",
    "predicted": {"peak": 1_900_000, "held": 1, "left": 1},
    "measured": {"peak": 2_000_000, "held": 1_500_000, "left": 1},
}


def test_a_recorded_row_says_how_far_the_prediction_is_off():
    less = {**ROW, "measured": {**ROW["measured"], "peak": 1_800_000}}
    table = peaks_view.recorded([ROW, less], "recorded on a chip")
    assert table.rows[0] == ("mini, 2 sequences", "fp32", "eager", "1.5 MB", "1.9 MB", "2 MB", 100_000)
    assert table.rows[1][-1] == -100_000 and table.caption == "recorded on a chip"
    assert peaks_view.error(ROW) == pytest.approx(0.05)
