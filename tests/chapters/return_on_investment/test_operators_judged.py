"""Operators against float64: the verdict, the doors, and three operators in earnest."""

import pytest

from chapters.return_on_investment.operators_judged import OPERATORS, OperatorError, judged
from compile_lab._torch.opinfo import operators


def test_there_are_more_than_a_hundred_operators_all_in_torchs_table_none_twice():
    assert len(OPERATORS) >= 100 and len(set(OPERATORS)) == len(OPERATORS)
    assert set(OPERATORS) <= set(operators())


@pytest.mark.parametrize(
    "eager, compiled, equal, verdict",
    [
        (1.0, 1.0, True, "bitwise equal"),
        (1.0, 1.05, False, "as close"),
        (1.0, 0.5, False, "compiled closer"),
        (0.5, 1.0, False, "eager closer"),
        (0.0, 0.1, False, "eager closer"),
        (None, None, False, "not judged"),
    ],
)
def test_the_verdict_says_who_is_closer(eager, compiled, equal, verdict):
    row = OperatorError("exp", "fp32", 1, eager, compiled, 0.1, equal)
    assert row.verdict == verdict and OperatorError.from_json(row.to_json()) == row


@pytest.mark.slow
def test_operators_are_judged_in_bf16_with_the_least_error_as_floor():
    add, mm, softmax = judged(["add", "mm", "softmax"], "bf16")
    assert [add.operator, mm.operator, softmax.operator] == ["add", "mm", "softmax"]
    for row in (add, mm, softmax):
        assert not row.stopped and 1e-3 < row.rounding < 4e-3 and row.rounding <= row.eager * 1.001
    assert add.verdict == "bitwise equal" and add.written and mm.called


def test_the_doors_name_what_is_wrong():
    with pytest.raises(ValueError, match="no operator 'nosuch'"):
        judged(["nosuch"])
    with pytest.raises(ValueError, match="precision='fp8'"):
        judged(["add"], "fp8")
    with pytest.raises(ValueError, match="on a CPU take"):
        judged(["add"], "tf32")
