"""A compiled step of sharded weights on one of eight pretended ranks, and the order of its collectives."""

import contextlib

import torch
import torch.distributed as dist
import torch.nn.utils.parametrize as parametrize
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard

from compile_lab._torch.distributed import fake_group
from compile_lab._torch.dynamo import reset_dynamo
from compile_lab.devices.compiled_collectives import orders


@contextlib.contextmanager
def pretended_mesh():
    fake_group(8, 0)
    try:
        yield init_device_mesh("cpu", (8,))
    finally:
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
