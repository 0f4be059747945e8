"""What DTensor moves without being told: the list agrees with torch's own count, and the first can be forbidden."""

import functools

import pytest
import torch

from chapters.sharding_strategies.experiments.tensor_parallel import minigpt_gathers
from chapters.sharding_strategies.redistributions import ImplicitRedistribution, distribute, forbidden, redistributions
from compile_lab.devices import ranks
from compile_lab.devices.collectives import fake_process_group

pytestmark = pytest.mark.processes


def _softmax_over_the_shards():
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor, init_device_mesh

    mesh = init_device_mesh("cpu", (2,))
    x = distribute_tensor(torch.ones(4, 8, requires_grad=True), mesh, [Shard(0)], src_data_rank=None)
    told = []

    def step(x):
        return x.softmax(0)  # the rows are on two ranks

    (found,) = redistributions(lambda: step(x))
    refused = functools.partial(_refused, told)
    refused(lambda: step(x))
    refused(lambda: step(x.redistribute(placements=[Replicate()])))
    refused(lambda: (x * 2).softmax(1).sum().backward())
    again = torch.ones(2, 4, 8)
    square = distribute_tensor(again, mesh, [Replicate()], src_data_rank=None)
    refused(lambda: x + square[0])
    return found, told


def _refused(told, call):
    try:
        with forbidden():
            call()
        told.append("")
    except ImplicitRedistribution as error:
        told.append(str(error))


def test_a_move_is_told_with_its_line_and_bytes_and_can_be_forbidden():
    for found, told in ranks.run(_softmax_over_the_shards, 2, echo=False):
        assert (found.operator, found.argument, found.before, found.after) == ("aten._softmax.default", 0, "S(0)", "R")
        assert found.place.startswith("test_redistributions.py, line ") and "x.softmax(0)" in found.text
        assert (found.kinds, found.sent_nbytes, found.backward, found.count) == (("all_gather",), 64, False, 1)
        assert "x.softmax(0)" in told[0] and told[1:] == ["", "", ""]  # said; free; cut out of a replica


def test_minigpt_gathers_where_no_line_says_so_and_torch_counts_the_same():
    for found, loss, alone, counted in ranks.run(minigpt_gathers, 2, echo=False, layers=1):
        assert loss == pytest.approx(alone, rel=1e-6)
        assert sum(each.count * len(each.kinds) for each in found) == counted["all_reduce"] > 4


def test_torch_s_styles_are_told_what_to_send_and_nothing_else_is_sent():
    for found, loss, alone, counted in ranks.run(minigpt_gathers, 2, None, 1, echo=False):
        assert loss == pytest.approx(alone, rel=1e-6) and counted["all_reduce"] > 4
        assert found and not any(each.sent_nbytes for each in found)  # a bias is cut out of a replica, and no more


def test_a_plan_that_matches_nothing_is_refused():
    with fake_process_group(2):
        mesh = torch.distributed.init_device_mesh("cpu", (2,))
        with pytest.raises(ValueError, match=r"no parameter is called \*\.qkv"):
            distribute(torch.nn.Linear(2, 2), mesh, {"*.qkv": "S(0)"})
