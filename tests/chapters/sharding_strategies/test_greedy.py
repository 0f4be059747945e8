"""Operator by operator against the best plan, and the pictures of choices."""

import pytest
import torch
import torch.nn.functional as F

from chapters.sharding_strategies.greedy import SHAPES, greedy
from chapters.sharding_strategies.greedy_view import against_best
from compile_lab.devices.collectives import Program, counted, pretended


@pytest.fixture(scope="module")
def rows():
    return greedy()


def test_in_some_layouts_choosing_by_operator_sends_more(rows):
    worse = [row for row in rows if row.greedy_nbytes > row.best_nbytes]
    assert (len(rows), len(worse), max(row.ratio for row in rows)) == (27, 13, 16.0)
    assert all(row.best_nbytes <= row.greedy_nbytes for row in rows)
    with pytest.raises(ValueError, match="in none of the layouts"):
        against_best([row for row in rows if row not in worse])


def test_the_figures_are_those_of_the_whole_chain_run_at_once(rows):
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor, init_device_mesh

    row = next(each for each in rows if each.layout == ("S(1)", "R", "R"))
    with pretended(4), torch.no_grad():
        mesh = init_device_mesh("cuda", (4,))

        def spread(name, kind):
            return distribute_tensor(torch.empty(SHAPES[name], device="meta"), mesh, [kind], src_data_rank=None)

        x, a, b = spread("x", Shard(1)), spread("a", Replicate()), spread("b", Replicate())

        def nbytes(step):
            return sum(each.sent_nbytes for each in counted(Program(step), smallest=1))

        def chain(x):
            return (F.gelu(x @ a) @ b).redistribute(placements=[Shard(1)])

        assert nbytes(lambda: chain(x)) == row.greedy_nbytes
        assert row.plan == ("S(0)", "R", "R", ""), "an all-to-all of x"
        assert nbytes(lambda: chain(x.redistribute(placements=[Shard(0)]))) == row.best_nbytes
