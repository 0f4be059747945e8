"""Lifetimes as a reader sees them: the peak's table adds up, and a difference has its cause named."""

import pytest

from compile_lab.memory import view as memory_view
from compile_lab.memory.ledger import Ledger, Tensor
from compile_lab.memory.measured import Allocation, Peak
from compile_lab.source import Line


def tensor(op, kind, nbytes, line=1):
    return Tensor(op, f"aten.{op}", kind, (nbytes // 4,), "float32", nbytes, -1, 0, Line("model.py", line))


@pytest.fixture
def step():
    """Two activations, a temporary, a gradient that outlives the step, and a few bytes that nobody would see."""
    ledger = Ledger()
    ledger.resident("w", tensor("w", "parameter", 500_000))

    def op(name, phase, line, **made):
        ledger.operation(name, f"aten.{name}", phase, Line("model.py", line), made)

    op("mm", "forward", 1, a=tensor("mm", "activation", 2_000_000))
    op("sum", "forward", 2, small=tensor("sum", "activation", 4))
    op("gelu", "forward", 3, b=tensor("gelu", "activation", 2_000_000, 3), t=tensor("gelu", "temporary", 1_000_000, 3))
    ledger.free("t")
    op("mul", "backward", 3, g=tensor("mul", "temporary", 3_000_000, 3))
    ledger.free("b"), ledger.free("small")
    op("mm_1", "backward", 1, dw=tensor("mm_1", "gradient", 500_000))
    ledger.free("a"), ledger.free("g")
    return ledger.lifetimes()


def test_the_table_of_the_peak_adds_up_to_it(step):
    rows = memory_view.at_peak(step).rows
    assert sum(row[4] for row in rows) == step.peak_nbytes
    assert rows[0][:5] == ("temporary", "mul", "model.py, line 3", 1, 3_000_000)
    cut = memory_view.at_peak(step, most=1).rows
    assert [row[0] for row in cut] == ["temporary", "all others"] and sum(row[4] for row in cut) == step.peak_nbytes


def measured(step, at="aten.mul", extra=0):
    alive = [Allocation((tensor.op,), tensor.nbytes) for tensor in step.alive_at(step.peak_at)]
    alive += [Allocation((at,), extra)] * bool(extra)
    return Peak("CPU", step.peak_nbytes + extra, None, 0, at, tuple(alive))


def test_the_operation_that_makes_a_difference_is_named(step):
    told = [measured(step), measured(step, extra=500_000), measured(step, at="aten.convolution", extra=500_000)]
    table = memory_view.predictions([("m", "eager", step, peak) for peak in told]).rows
    assert table[0] == ("m", "eager", 7_000_004, 7_000_004, 0, "0.00 %", "–")
    assert [row[4:] for row in table[1:]] == [
        (500_000, "6.67 %", "mul +500,000"),
        (500_000, "6.67 %", "peaks inside convolution, not at mul"),
    ]
