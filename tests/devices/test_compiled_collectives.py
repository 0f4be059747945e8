"""Collectives in generated code: what Inductor does unasked, and graphs on real ranks."""

import pytest
import torch
import torch.distributed as dist
import torch.nn.utils.parametrize as parametrize
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard

from compile_lab._torch.distributed import fake_group
from compile_lab._torch.dynamo import dynamo_config, reset_dynamo
from compile_lab.devices import ranks
from compile_lab.devices.compiled_collectives import BUCKETED, REORDERED, compiled, orders
from compile_lab.simulator import wire


@pytest.fixture
def mesh():
    fake_group(8, 0)
    yield init_device_mesh("cpu", (8,))
    dist.destroy_process_group()


class Gather(nn.Module):
    def forward(self, part):
        return part.redistribute(placements=[Replicate()]).to_local(grad_placements=[Partial("avg")])


def sharded(model, mesh):
    for module in list(model.modules()):
        for name, each in list(module.named_parameters(recurse=False)):
            part = DTensor.from_local(each.detach().chunk(mesh.size())[0].clone(), mesh, [Shard(0)])
            setattr(module, name, nn.Parameter(part))
            parametrize.register_parametrization(module, name, Gather(), unsafe=True)
    return model


def step_orders(mesh, options):
    reset_dynamo()
    model = sharded(nn.Sequential(*(nn.Linear(64, 64, bias=False) for _ in range(3))), mesh)
    run, x = torch.compile(model, fullgraph=True, options=options), torch.randn(16, 64)
    return orders(lambda: run(x).square().mean().backward())


def without_kernels(graph):
    return " ".join(token for token in graph if token != "k")


@pytest.mark.differs("2.15", "Inductor moves collectives unasked: aten_distributed_optimizations.enable_simple_overlap")
def test_unasked_inductor_awaits_each_collective_where_it_starts(mesh):
    forward, _ = step_orders(mesh, {})
    assert without_kernels(forward) == "AG0 w0 MM AG1 w1 MM AG2 w2 MM"
    assert wire.step_of(forward, 1.0, 1.0).span_ms == 6


@pytest.mark.slow
def test_inductor_moves_and_joins_the_collectives_of_a_sharded_step(mesh):
    plain, moved, joined = (step_orders(mesh, options) for options in ({}, REORDERED, BUCKETED))
    starts = [[[token for token in graph if token[:2] in ("AG", "RS")] for graph in each] for each in (plain, joined)]
    assert [len(graph) for graph in starts[0]] == [3, 3] and [len(graph) for graph in starts[1]] == [1, 1]
    assert without_kernels(moved[0]) == "AG0 AG1 AG2 w0 MM w1 MM w2 MM"
    for each in (plain, moved, joined):
        assert [graph.count("MM") for graph in each] == [3, 5]
    assert wire.step_of(moved[0], 1.0, 1.0).span_ms == 4


def reduced(x):
    y = x * 2
    dist.all_reduce(y)
    return y.relu()


def behind(x):
    y = x * 2
    work = dist.all_reduce(y, async_op=True)
    z = x.sin()
    work.wait()
    return y + z


def ring(x):
    rank, size = dist.get_rank(), dist.get_world_size()
    y, z = torch.empty_like(x), x * 2
    both = [dist.P2POp(dist.isend, z, (rank + 1) % size), dist.P2POp(dist.irecv, y, (rank - 1) % size)]
    for work in dist.batch_isend_irecv(both):
        work.wait()
    return y + 1


def three_functions():
    x = torch.arange(4.0) + dist.get_rank()
    found = [compiled(fn, x) for fn in (reduced, behind, ring)]
    if hasattr(dynamo_config, "enable_p2p_compilation"):
        with dynamo_config.patch(enable_p2p_compilation=True):
            found.append(compiled(ring, x))
    return found


@pytest.mark.slow
def test_collectives_become_nodes_of_one_graph_or_the_reason_is_told():
    for summed, asynchronous, closed, *opened in ranks.run(three_functions, 2, timeout=600):
        assert summed.collectives == ("all_reduce", "wait_tensor") and summed.equal
        assert not asynchronous.nodes and "async_op" in asynchronous.error
        assert not closed.nodes and closed.error and closed.equal is None
        for each in opened:
            assert each.equal and each.collectives[0] == "batch_p2p_ops"
            assert each.collectives[1].startswith("wait_tensor"), "torch 2.15: one node, wait_tensors"


def test_another_order_of_rounding_is_the_same_value_and_another_value_is_not():
    torch.manual_seed(0)
    x = torch.randn(64, 512)
    rounded = torch.compile(lambda x: (x * 1.1).sin().sum(1) / 3, fullgraph=True)(x)
    assert not torch.equal(rounded, (x * 1.1).sin().sum(1) / 3), "Inductor sums in another order"
    assert compiled(lambda x: (x * 1.1).sin().sum(1) / 3, x).equal

    def fakes(x):
        return x + torch.compiler.is_compiling()

    assert compiled(fakes, x).equal is False
