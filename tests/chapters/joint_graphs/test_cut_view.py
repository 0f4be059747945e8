"""The cut through the joint graph as a picture: which call keeps what for whose gradient."""

import pytest
import torch
from torch import nn

from chapters.joint_graphs import cut_view
from compile_lab.aot import training_graphs
from compile_lab.aot import view as aot_view


@pytest.fixture(scope="module")
def mlp():
    model = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 8))
    return training_graphs(model, torch.randn(4, 8, requires_grad=True))


def test_each_kept_tensor_goes_from_its_maker_to_its_readers(mlp):
    drawn = cut_view.bands(mlp)
    assert {row[:3] for row in drawn.table.rows} == {("0", "gelu", 512), ("gelu", "2", 512)}
    assert "512 bytes from 0 to the gradient of gelu" in drawn.alt
    assert sum(row[2] for row in drawn.table.rows) == mlp.saved_nbytes


def test_reasons_fall_into_families(mlp):
    rules = {each.rule: cut_view.family(each) for each in mlp.saved if each.extra_nbytes}
    product, operand, _ = cut_view.FAMILIES
    assert rules == {"not in recomputable allowlist": product, "materialized in backward": operand}


def test_nothing_kept_is_nothing_to_draw():
    kept_nothing = training_graphs(lambda x: x.sin().sum(), torch.randn(4, requires_grad=True))
    with pytest.raises(ValueError, match="keeps no byte"):
        cut_view.bands(kept_nothing)


def test_bars_by_rule_and_by_tensor_add_up(mlp):
    rules, largest = aot_view.by_rule(mlp), aot_view.largest(mlp)
    assert sum(rules.plot.data[0].x) == pytest.approx(mlp.saved_nbytes / 1e3) == sum(largest.plot.data[0].x)
    assert sum(row[2] for row in rules.table.rows) == mlp.saved_nbytes
    assert "materialized in backward 512 bytes" in rules.alt


def test_a_reason_can_have_its_rule_before_it(mlp):
    said = [row[5] for row in aot_view.saved(mlp, residents=False, named=True).rows]
    assert any(text.startswith("materialized in backward: the backward would") for text in said)


def test_each_call_is_counted_under_each_table(mlp):
    drawn = cut_view.decomposed({"Inductor's table": mlp})
    gelu = next(each for each in mlp.decompositions if each.call == "gelu")
    assert f"gelu, Inductor's table: {len(gelu.forward)} forward and {len(gelu.backward)} backward" in drawn.alt
    assert len(drawn.table.rows) == 2 and "linear, Inductor's table: 4 forward" in drawn.alt  # both linears
    with pytest.raises(ValueError, match="no call"):
        cut_view.decomposed({})
