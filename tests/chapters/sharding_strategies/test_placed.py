"""Who holds what on real ranks, and its drawing: parts put together make the whole, in torch's own order."""

import pytest
import torch

from chapters.sharding_strategies.placed import placed, placed_by
from chapters.sharding_strategies.placed_view import on_meshes

pytestmark = pytest.mark.processes

X = torch.arange(16.0).reshape(4, 4)


def rows_of(found):
    return [part.local[:, 0].tolist() for part in found.parts]


def test_on_one_axis_shards_replicas_and_partial_sums():
    shards, sums = placed(X, ["S(1)"]), placed(X, ["P(sum)"])
    assert [part.at for part in shards.parts] == [(0,), (1,)]
    assert torch.equal(torch.cat([part.local for part in shards.parts], 1), X)
    assert shards.cells(shards.parts[1]).tolist() == [[False, False, True, True]] * 4
    assert torch.equal(sum(part.local for part in sums.parts), X) and torch.equal(sums.whole, X)


def test_on_two_axes_the_order_of_the_cuts_is_seen():
    plain, strided = placed(X, ["S(0)", "S(0)"], (2, 2)), placed(X, ["_S(0, 2)", "S(0)"], (2, 2))
    assert rows_of(plain) == [[0], [4], [8], [12]]
    assert rows_of(strided) == [[0], [8], [4], [12]]  # tp cut first, as FSDP over tensor parallel does
    assert strided.words == ("_S(0, 2)", "S(0)")


def test_what_fsdp_over_tensor_parallel_leaves_is_a_strided_shard():
    def fsdp_of_tp(mesh):
        from torch import nn
        from torch.distributed.fsdp import fully_shard
        from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module

        linear = nn.Linear(4, 4, bias=False)
        with torch.no_grad():
            linear.weight.copy_(torch.arange(16.0).reshape(4, 4))
        parallelize_module(linear, mesh["tp"], ColwiseParallel())
        return fully_shard(linear, mesh=mesh["dp"]).weight

    found = placed_by(fsdp_of_tp)
    assert found.words == ("_S(0, 2)", "S(0)") and rows_of(found) == [[0], [8], [4], [12]]


def test_a_product_leaves_a_partial_sum():
    def product(mesh):
        from torch.distributed.tensor import Shard, distribute_tensor

        a = torch.arange(16.0).reshape(4, 4)
        spread = [distribute_tensor(a.clone(), mesh, [Shard(d)], src_data_rank=None) for d in (1, 0)]
        return spread[0] @ spread[1]

    found = placed_by(product, (2,))
    assert found.words == ("P(sum)",) and torch.equal(found.whole, X @ X)
    assert all(found.cells(part).all() for part in found.parts)


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda: placed(X, ["R"], (2, 2)), "1 placements on a mesh of 2"),
        (lambda: placed(X, ["S(2)"]), r"S\(2\) .* go to 1"),
        (lambda: placed(X, ["R"] * 3, (2, 2, 2)), "3 axes"),
        (lambda: on_meshes([placed(torch.ones(4, 4), ["S(0)"])]), "equal numbers"),
    ],
)
def test_what_does_not_fit_is_refused(call, word):
    with pytest.raises(ValueError, match=word):
        call()
