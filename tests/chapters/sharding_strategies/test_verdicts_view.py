"""Rulings and placements in pictures: each square says what came of it, and the words beside say the same."""

import pytest
import torch

from chapters.sharding_strategies.audit import Audit, Row
from chapters.sharding_strategies.placements_view import held_by
from chapters.sharding_strategies.verdicts_view import grid, plain, shares, with_verdict
from compile_lab.devices.dtensor import Ruling
from compile_lab.simulator.collectives import Collective

SENT = (Collective("all_gather", "world", 2, 1, 1024),)
ROWS = (
    Row("sum", "S(0)", "value", "even", "free", cases=3),
    Row("sort", "S(0)", "value", "even", "paid", cases=2, nbytes=512),
    Row("nn.functional.conv2d", "P(sum)", "value", "even", "wrong", what="value"),
    Row("nn.functional.conv2d", "all S(0)", "gradient", "even", "refused"),
)
AUDIT = Audit(2, 1, 0, "*", ("nn.functional.conv2d", "sort", "sum"), ROWS)


def test_a_grid_has_a_square_for_each_ruling_with_bytes_and_place():
    drawn = grid({
        ("sum", "S(0)"): Ruling("free", out=("P(sum)",)),
        ("sum", "S(1)"): Ruling("paid", sent=SENT, out=("R",)),
        ("conv", "S(0)"): Ruling("wrong", "label", "R of (4,)"),
    })  # fmt: skip
    assert "P(sum)" in drawn.svg and "512 bytes → R" in drawn.svg and "wrong label" in drawn.svg
    assert drawn.alt.startswith("2 operators by 2 placements: 1 right, and nothing is sent")
    assert drawn.table.rows[1] == ["conv", "wrong", None]
    with pytest.raises(ValueError, match="rulings is empty"):
        grid({})


def test_torchs_own_partial_values_are_named_shortly():
    assert [plain(word) for word in ("S(0)", "_NormP(2)", "MaskP(sum, torch.Size([8]), 0)")] == [
        "S(0)",
        "P(norm)",
        "P(mask)",
    ]


def test_shares_count_cases_by_place_and_verdict():
    drawn = shares(AUDIT)
    assert drawn.alt.startswith("Of 6 cases of 3 operators: 50.0% right, and nothing is sent")
    assert [row[:3] for row in drawn.table.rows] == [("all", 6, 3), ("sharded", 5, 3), ("partial", 1, 0)]
    with pytest.raises(ValueError, match="no case that asks for a gradient"):
        shares(Audit(2, 1, 0, "*", (), ()), asked="gradient")


def test_operators_with_a_verdict():
    assert with_verdict(AUDIT, "wrong") == ("nn.functional.conv2d",)
    assert with_verdict(AUDIT, "wrong", ("S",)) == ()
    assert with_verdict(AUDIT, "refused", asked="gradient") == ("nn.functional.conv2d",)


def test_each_rank_shows_the_numbers_that_it_holds():
    drawn = held_by(torch.arange(4.0).reshape(2, 2), ["S(1)", "P(sum)"])
    assert "S(1): rank 0 holds [[0.0], [2.0]]; rank 1 holds [[1.0], [3.0]]" in drawn.alt
    with pytest.raises(ValueError, match="a matrix of at most 16 numbers"):
        held_by(torch.ones(3), ["R"])
    with pytest.raises(ValueError, match="give one to four"):
        held_by(torch.ones(2, 2), [])
