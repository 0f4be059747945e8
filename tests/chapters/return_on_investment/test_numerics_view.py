"""What the views of eager against compiled say, of rows made by hand."""

import pytest

from chapters.return_on_investment import numerics_view
from chapters.return_on_investment.chains import ChainError, MaskRow, RowAlone
from chapters.return_on_investment.operators_judged import OperatorError
from chapters.return_on_investment.runs import REFERENCE, TrainedRun
from compile_lab.precision.bisect import Divergence, NodeError

ERRORS = [
    OperatorError("exp", "bf16", 9, 2e-3, 2e-3, 1.5e-3, True),
    OperatorError("pow", "bf16", 9, 4e-3, 2e-3, 2e-3),
    OperatorError("var", "fp32", 9, 2e-8, 9e-8, 2e-8),
    OperatorError("fmod", "fp32", 9, 0.0, 0.0, 0.0, True),
    OperatorError("odd", "fp32", stopped="not here"),
]


def test_the_picture_counts_and_leaves_out_what_has_no_least_error():
    drawn = numerics_view.operators_picture(ERRORS)
    assert "bf16: 1 bitwise equal, 0 as close, 1 compiled closer, 0 eager closer" in drawn.alt
    assert drawn.svg.count("<title>") == 3 and "fmod" not in drawn.svg
    assert [row[0] for row in drawn.table.rows] == ["var", "pow"]
    with pytest.raises(ValueError, match="no operator was judged"):
        numerics_view.operators_picture(ERRORS[-1:])


def test_verdicts():
    rows = {row[0]: row[1:] for row in numerics_view.verdicts(ERRORS).rows}
    assert rows == {"bf16": (2, 1, 0, 1, 0, 0), "fp32": (2, 1, 0, 0, 1, 1)}


def test_chains_masks_and_rows():
    chains = [
        ChainError("GELU", "bf16", "eager", 3e-3, 1e-3, 1.0),
        ChainError("GELU", "bf16", "compiled", 1e-3, 1e-3, 0.5),
    ]
    drawn = numerics_view.chain_picture(chains)
    assert "closer to it in 1: GELU" in drawn.alt and drawn.table.rows[0][3] == "100 %: bitwise"
    with pytest.raises(ValueError, match="'fp32'; there is bf16"):
        numerics_view.chain_picture(chains, "fp32")
    assert numerics_view.masks([MaskRow("compiled", 0.5, 0.4)]).rows == [("compiled", "50 %", "40 %")]
    alone = numerics_view.alone(
        [RowAlone("mm", "fp32", "eager", 1, False, 3e-7), RowAlone("mm", "fp32", "eager", 2, True, 0.0)]
    )
    assert alone.rows == [("mm", "fp32", "eager", "3.0e-07", "equal")]


def run(name, seed, loss, distance):
    return TrainedRun(name, seed, (loss, loss), (1, 2), (distance, 2 * distance))


RUNS = [
    run(REFERENCE, 0, 3.0, 0.0),
    run(REFERENCE, 1, 3.5, 0.0),
    run("fp32 eager", 0, 3.001, 1e-5),
    run("fp32 eager", 1, 3.502, 3e-5),
]


def test_distances_are_medians_and_losses_are_held_against_the_seeds():
    drawn = numerics_view.distances([*RUNS, TrainedRun("tf32 eager", 0, (), (), (), "no")])
    assert "fp32 eager 4.0e-05" in drawn.alt and "tf32" not in drawn.alt
    band = numerics_view.loss_band(RUNS)
    assert "between seeds 5.0e-01, fp32 eager 2.0e-03" in band.alt
    with pytest.raises(ValueError, match="two at least"):
        numerics_view.loss_band(RUNS[:1])
    with pytest.raises(ValueError, match="no run was held"):
        numerics_view.distances(RUNS[:2])


def test_a_search_marks_the_first_that_differs():
    nodes = (NodeError("a", "add", None, 1e-3, 1.0), NodeError("b", "exp", None, 1e-3, 2.0, 2e-3, 1e-3))
    rows = numerics_view.divergence(Divergence(nodes[1], nodes, ("b",), 0.0)).rows
    assert [row[0] for row in rows] == ["", "→"] and rows[1][-1] == "1.0e-03"
