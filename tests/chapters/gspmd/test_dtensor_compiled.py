"""The same DTensor program eager and compiled, on two real ranks; Inductor's own code sends what the graphs say."""

import pytest
import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from chapters.gspmd.dtensor_compiled import block_of, eager_and_compiled
from chapters.gspmd.gspmd_side_by_side import annotated_block
from compile_lab._torch.inductor import generated_graphs
from compile_lab.devices import ranks
from compile_lab.devices.step_collectives import _read

pytestmark = pytest.mark.processes


def styled(mesh):
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 16))
    parallelize_module(module, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    return block_of(module, torch.randn(8, 16, generator=torch.Generator().manual_seed(1), requires_grad=True))


def on_a_rank(inductor=False):
    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("x",))
    if inductor:
        loss, _ = annotated_block("tp", mesh)
        run = torch.compile(loss, fullgraph=True)
        return sum(_read(*graph).count("all_reduce") for graph in generated_graphs(lambda: run().backward()))
    return eager_and_compiled(lambda mesh: annotated_block("tp", mesh), mesh), eager_and_compiled(styled, mesh)


@pytest.mark.slow
def test_an_annotated_block_sends_less_compiled_and_styles_send_the_same():
    one, other = ranks.run(on_a_rank, 2, timeout=600)
    assert one == other
    annotated, styles = one
    (eager,), (compiled,) = annotated.eager, annotated.compiled
    assert (eager.kind, eager.count, compiled.kind, compiled.count) == ("all_reduce", 6, "all_reduce", 4)
    assert 2 * eager.payload_nbytes == 3 * compiled.payload_nbytes
    assert styles.eager == styles.compiled and styles.eager[0].kind == "all_reduce"
    assert annotated.apart < 1e-5 and styles.apart < 1e-5


def test_what_a_torchs_dtensor_refuses_is_named_and_any_other_error_comes_through():
    def refused(op):
        def loss():
            raise RuntimeError(f"Sharding propagation failed for {op}(Spec(f32[8, 4](S(1))), [32]) on a mesh")

        return loss, {}

    def on_its_own():
        mesh = init_device_mesh("cpu", (1,), mesh_dim_names=("x",))
        found = eager_and_compiled(lambda mesh: refused("aten._unsafe_view.default"), mesh)
        with pytest.raises(RuntimeError, match="out of memory"):
            eager_and_compiled(lambda mesh: (lambda: (_ for _ in ()).throw(RuntimeError("out of memory")), {}), mesh)
        return found

    (found,) = ranks.run(on_its_own, 1, timeout=600)
    assert (found.refused, found.eager, found.compiled) == ("aten._unsafe_view", (), ())


@pytest.mark.slow
def test_inductors_code_has_the_collectives_of_the_graphs():
    assert ranks.run(on_a_rank, 2, True, timeout=600) == [4, 4]
