"""From a call to its candidates: what was traced, what is left behind, what is refused. Chapter 14 shows the prices."""

import pytest
import torch
import torch.nn.functional as F

from chapters.sharding_strategies.audit import Audit
from chapters.sharding_strategies.candidates import candidates
from chapters.sharding_strategies.verdicts_view import grid, shares
from chapters.sharding_strategies.view import choice, held_by, who_holds_what
from compile_lab.devices.dtensor import Ruling


def test_an_operator_without_a_rule_shows_what_was_traced():
    found = candidates(F.mse_loss, [torch.ones(8, 8)] * 2, ["S(0)", "S(0)"])
    (one,) = found.operators
    assert one.operator == "aten.mse_loss.default" and "aten.mean.default" in one.traced
    assert candidates(torch.relu, [torch.ones(8)], ["S(0)"]).operators[0].traced == ()


def test_nothing_is_left_behind_and_nothing_is_said(capfd):
    candidates(torch.matmul, [torch.ones(512, 512)] * 2, ["S(1)", "S(1)"])
    assert not torch.distributed.is_initialized() and capfd.readouterr() == ("", "")


def product(*layout):
    return candidates(torch.matmul, [torch.ones(8, 8)] * 2, layout)


REFUSED = [
    (lambda: product("R"), "1 placements for 2 tensors"),
    (lambda: choice(product("S(1)", "S(1)"), at=1), "at=1"),
    (lambda: choice(product("S(1)", "S(1)"), ["x"]), "1 names"),
    (lambda: grid({}), "rulings is empty"),
    (lambda: shares(Audit(2, 1, 0, "*", (), ())), "no case"),
    (lambda: held_by(torch.ones(3), ["R"]), "16 numbers"),
    (lambda: held_by(torch.ones(2, 2), []), "one to four"),
    (lambda: who_holds_what("f", [], Ruling("paid", out=("R",))), "inputs is 0"),
]


@pytest.mark.parametrize(("call", "word"), REFUSED, ids=[word for _, word in REFUSED])
def test_a_layout_that_does_not_fit_and_what_cannot_be_drawn_are_refused(call, word):
    with pytest.raises(ValueError, match=word):
        call()
