"""The cut through the joint graph as a picture: which call keeps what for whose gradient."""

import pytest
import torch
from torch import nn

from chapters.joint_graphs import cut_view
from compile_lab.aot import training_graphs


@pytest.fixture(scope="module")
def mlp():
    model = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 8))
    return training_graphs(model, torch.randn(4, 8, requires_grad=True))


def test_each_kept_tensor_goes_from_its_maker_to_its_readers(mlp):
    drawn = cut_view.kept(mlp)
    assert {row[:3] for row in drawn.table.rows} == {("0", "gelu", 512), ("gelu", "2", 512)}
    assert sum(row[2] for row in drawn.table.rows) == mlp.saved_nbytes


def test_nothing_kept_and_no_call_is_nothing_to_draw():
    kept_nothing = training_graphs(lambda x: x.sin().sum(), torch.randn(4, requires_grad=True))
    with pytest.raises(ValueError, match="no byte"):
        cut_view.kept(kept_nothing)
    with pytest.raises(ValueError, match="no call"):
        cut_view.decomposed({})
