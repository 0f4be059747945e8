"""The collectives of a compiled step: how they are read, what each way does to them, and how they are drawn."""

import math
import pickle

import pytest
import torch
import torch.distributed as dist
from fsdp_step import mlp, step_on
from torch import nn
from torch.distributed.device_mesh import init_device_mesh

from compile_lab._torch.dynamo import reset_dynamo
from compile_lab._torch.inductor import generated_graphs
from compile_lab.devices import fake_process_group, ranks
from compile_lab.devices.step_collectives import WAYS, StepCollectives, _read, in_buckets, on_virtual_gpus
from mini_model.simple_fsdp import simple_fsdp

SOURCE = """
cpp_fused_relu_0 = async_compile.cpp_pybinding(['float*'], 'void kernel(float* out_ptr0) {}')
def call(args):
    primals_1, = args
    buf0 = torch.ops._c10d_functional.all_gather_into_tensor.default(primals_1, 8, '0')
    torch.ops._c10d_functional.all_gather_into_tensor_out.default(primals_1, 8, '0', out=buf1)
    torch.ops._c10d_functional.wait_tensor.default(buf0)
    extern_kernels.mm(buf0, buf4, out=buf5)
    cpp_fused_relu_0(buf5)
    torch.ops._c10d_functional.wait_tensor.default(buf1)
    buf6 = torch.ops._c10d_functional.reduce_scatter_tensor.default(buf5, 'avg', 8, '0')
    torch.ops._c10d_functional.wait_tensor.default(buf6)
    return (buf5, primals_1, buf6, )
"""
SIZES = {
    "primals_1": ((2, 4), torch.float32),
    "buf0": ((16, 4), torch.float32),
    "buf1": ((16, 4), torch.bfloat16),
    "buf5": ((16, 4), torch.float32),
    "buf6": ((2, 4), torch.float32),
}


def test_each_collective_has_its_larger_side_and_what_could_hide_it():
    found = _read(SOURCE, SIZES)
    assert found.order == ("AG0", "AG1", "w0", "MM", "k", "w1", "RS2", "w2")
    assert [(each.kind, each.nbytes, each.dtype, each.matmuls) for each in found.collectives] == [
        ("all_gather", 256, "float32", 0),
        ("all_gather", 128, "bfloat16", 1),
        ("reduce_scatter", 256, "float32", 0),
    ]
    assert found.nbytes == 640 and found.covered_nbytes == 128 and found.in_flight_nbytes == 384
    assert found.returned_nbytes == 256 + 32, "an input that is given back is none of its own"
    assert found.count("all_gather") == 2 and found.matmuls == 1


def test_on_paper_what_lies_under_a_product_is_hidden():
    found = _read(SOURCE, SIZES)
    on_paper = found.on_wire(1.0, bytes_per_ms=128.0, start_ms=0.5)
    # AG0 2.5 ms, AG1 until 4 behind it, the product from 2.5 to 3.5, RS2 2.5 ms
    assert on_paper.span_ms == 6.5 and on_paper.exposed_ms == 5.5
    for call in (lambda: found.on_wire(1.0, bytes_per_ms=0), lambda: in_buckets(0), lambda: in_buckets(math.nan)):
        with pytest.raises(ValueError, match="more than 0 bytes"):
            call()


@pytest.mark.slow
def test_on_pretended_ranks_the_bytes_are_the_models_whatever_the_way():
    whole = sum(each.nbytes for each in mlp().parameters())
    found = {}
    with fake_process_group(8):
        mesh = init_device_mesh("cpu", (8,))
        for name in ("as it is", "reordered", "bucketed"):
            reset_dynamo()
            graphs = generated_graphs(step_on(mesh, options=WAYS[name]))
            found[name] = StepCollectives(tuple(_read(*graph) for graph in graphs))
    for each in found.values():
        forward, backward = each.graphs
        assert forward.nbytes == backward.nbytes == whole, "one gather and one scatter of each weight"
        assert (forward.matmuls, backward.matmuls) == (4, 7)
    assert found["as it is"].covered_nbytes == 0 and found["bucketed"].count("all_gather") == 1
    assert found["as it is"].count("reduce_scatter") == found["reordered"].count("reduce_scatter") == 4
    moved = found["reordered"].graphs[0]
    assert moved.covered_nbytes == 3 / 4 * whole and moved.in_flight_nbytes == whole
    assert found["as it is"].graphs[0].in_flight_nbytes == whole / 4
    assert found["as it is"].graphs[0].returned_nbytes > 3 / 4 * whole, "the gathered weights are kept"


def on_two_ranks():
    mesh, x = init_device_mesh("cpu", (2,)), torch.randn(8, 64, generator=torch.Generator().manual_seed(3))
    plain = mlp()
    plain(x).square().mean().backward()
    exact = [each.grad for each in plain.parameters()]
    far = {}
    for name, options in {"as it is": {}, "reordered": WAYS["reordered"], "in buckets": in_buckets(0.04)}.items():
        reset_dynamo()
        model = simple_fsdp(mlp(), mesh)
        run = torch.compile(model, fullgraph=True, options=options)
        run(x.chunk(2)[dist.get_rank()]).square().mean().backward()
        gradients = [each.grad.full_tensor() for each in model.parameters()]
        far[name] = max((a - b).abs().max().item() for a, b in zip(gradients, exact, strict=True))
    return far, max(each.abs().max().item() for each in exact)


@pytest.mark.slow
def test_on_real_ranks_every_way_gives_the_gradients_of_one_process():
    for far, size in ranks.run(on_two_ranks, 2, timeout=600):
        assert size > 1e-4 and all(each < 1e-5 * size for each in far.values()), far


class Tied(nn.Module):
    """One matrix, read twice."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(64, 64, bias=False), nn.Linear(64, 64, bias=False)
        self.last.weight = self.first.weight

    def forward(self, x):
        return self.last(self.first(x).relu())


def tied_step(mesh):
    with torch.device("cuda"):
        model, x = simple_fsdp(Tied(), mesh, dtype=torch.bfloat16), torch.ones(16, 64, dtype=torch.bfloat16)
    run = torch.compile(model, fullgraph=True)
    return lambda: run(x).square().mean().backward()


@pytest.mark.slow
def test_a_tied_matrix_is_gathered_once_and_scattered_twice_unless_told_otherwise():
    plain, once = (on_virtual_gpus(tied_step, 8, options) for options in ({}, {"dedup_reduce_scatters": True}))
    assert [(each.count("all_gather"), each.count("reduce_scatter")) for each in (plain, once)] == [(1, 2), (1, 1)]
    assert plain.nbytes - once.nbytes == 64 * 64 * 4
    (gather,), (scatter,) = (graph.collectives for graph in once.graphs)
    assert (gather.dtype, gather.nbytes) == ("bfloat16", 64 * 64 * 2), "gathered narrow"
    assert (scatter.dtype, scatter.nbytes) == ("float32", 64 * 64 * 4), "reduced in full"


def test_inductor_can_make_a_cache_key_of_the_buckets_options():
    options = pickle.loads(pickle.dumps(in_buckets(25)))
    sizes = {name: size(3) for name, size in options.items() if callable(size)}
    assert sizes and set(sizes.values()) == {25}
