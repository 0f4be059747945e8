"""Clipping mesh by mesh; on several meshes the grid's test compares it with one process."""

import pytest
import torch
from torch import nn

from chapters.where_to_compile.clipping import clip_by_mesh


@pytest.mark.parametrize("limit", [0.1, 1e9])
def test_without_a_mesh_it_is_what_torch_does(limit):
    models = []
    for clip in (nn.utils.clip_grad_norm_, clip_by_mesh):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
        model(torch.ones(2, 4)).square().sum().backward()
        model[1].bias.grad = None
        models.append((clip(model.parameters(), limit), [p.grad for p in model.parameters() if p.grad is not None]))
    torch.testing.assert_close(*models)
    assert len(models[1][1]) == 3
