"""The cut through the joint graph as a picture: which call keeps what for whose gradient."""

import pytest
import torch
from small_gpt import graphs_of, small_gpt
from torch import nn

from chapters.joint_graphs import cut_view
from compile_lab.aot import training_graphs
from compile_lab.aot import view as aot_view


@pytest.fixture(scope="module")
def mlp():
    model = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 8))
    return training_graphs(model, torch.randn(4, 8, requires_grad=True))


def test_each_kept_tensor_goes_from_its_maker_to_its_readers(mlp):
    drawn = cut_view.kept(mlp)
    assert {row[:3] for row in drawn.table.rows} == {("0", "gelu", 512), ("gelu", "2", 512)}
    assert sum(row[2] for row in drawn.table.rows) == mlp.saved_nbytes


def test_reasons_fall_into_families(mlp):
    rules = {each.rule: cut_view.family(each) for each in mlp.saved if each.extra_nbytes}
    matmul, operand, _ = cut_view.FAMILIES
    assert rules == {"not in recomputable allowlist": matmul, "materialized in backward": operand}


@pytest.mark.slow
def test_every_table_has_the_bytes_of_the_graphs():
    graphs = graphs_of(*small_gpt())
    found = graphs["min_cut"]
    assert sum(row[2] for row in aot_view.rules(found).rows) == found.saved_nbytes
    assert sum(row[3] for row in aot_view.saved(found, residents=False).rows) == found.saved_nbytes
    assert aot_view.comparison(graphs).rows[0][-1] == found.saved_nbytes


def test_nothing_kept_and_no_call_is_nothing_to_draw():
    kept_nothing = training_graphs(lambda x: x.sin().sum(), torch.randn(4, requires_grad=True))
    with pytest.raises(ValueError, match="no byte"):
        cut_view.kept(kept_nothing)
    with pytest.raises(ValueError, match="no call"):
        cut_view.decomposed({})
