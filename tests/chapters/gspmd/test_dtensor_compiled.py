"""DTensor compiled: Inductor's own code sends what the graphs say, which chapter 15 counts; and what is refused."""

import pytest
import torch
from torch.distributed.device_mesh import init_device_mesh

from chapters.gspmd.dtensor_compiled import eager_and_compiled
from chapters.gspmd.gspmd_side_by_side import annotated_block
from compile_lab._torch.inductor import generated_graphs
from compile_lab.devices import ranks
from compile_lab.devices.step_collectives import _read

pytestmark = pytest.mark.processes


def sums_in_inductors_code():
    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("x",))
    run = torch.compile(annotated_block("tp", mesh)[0], fullgraph=True)
    return sum(_read(*graph).count("all_reduce") for graph in generated_graphs(lambda: run().backward()))


@pytest.mark.slow
def test_inductors_code_has_the_collectives_of_the_graphs():
    assert ranks.run(sums_in_inductors_code, 2, timeout=600) == [4, 4]


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
