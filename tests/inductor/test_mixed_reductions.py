"""Kernels that reduce along rows and columns at once, and the calls that finish what they begin: all are launches."""

import pytest
import torch
from torch import nn

from compile_lab.inductor import generated as inductor
from compile_lab.inductor.records import EXTERN
from compile_lab.inductor.wrapper import launch_line, partial_sums

WRAPPER = """
            triton_per_fused_0.run(arg0, buf9, workspace_0, 16384, 4096, stream=raw_stream0)
            buf4 = workspace_0[0 * (1024) * (4096) : (0 + 1) * (1024) * (4096)].view(1024, 4096).sum(dim=0).view([4096])
            buf6 = workspace_0[1 * 1024 * 4096 : (1 + 1) * 1024 * 4096].view(1024, 4096).amax(dim=0).to(torch.bfloat16)
            del workspace_0
            buf7 = workspace_1[0 * 4 * 4 : (0 + 1) * 4 * 4].view(4, 4).sum(dim=0)
"""


def test_the_calls_after_the_launch_are_read_with_their_bytes():
    call = launch_line(WRAPPER, "triton_per_fused_0")
    assert call.startswith("triton_per_fused_0.run(arg0") and call.endswith("stream=raw_stream0)")
    first, second = partial_sums(WRAPPER, call)
    assert (first.buffer, first.op, first.nbytes, first.out_nbytes, first.cast) == (
        "buf4",
        "sum",
        16_777_216,
        16_384,
        False,
    )
    assert (second.buffer, second.op, second.cast) == ("buf6", "amax", True)


def test_a_kernel_that_is_not_launched_has_no_calls_after_it():
    assert launch_line(WRAPPER, "triton_per_fused") == ""
    assert partial_sums(WRAPPER, "triton_other.run()") == ()


@pytest.mark.parametrize(("rows", "mixed"), [(8192, True), (64, False)])
def test_a_tall_layer_norm_is_differentiated_in_one_pass_and_no_launch_is_left_out(rows, mixed):
    x = torch.zeros(1).expand(rows, 1024).requires_grad_()
    code = inductor.generated_code(nn.LayerNorm(1024), x, chip="H200")
    backward = code.graphs[1]
    assert ("workspace" in backward.wrapper) == mixed
    sums = [kernel for kernel in backward.kernels if kernel.language == EXTERN and kernel.name == "aten.sum"]
    assert len(sums) == 2 * mixed, "one for the weight, one for the bias"
    assert len(backward.kernels) - len(sums) == backward.wrapper.count(".run(")
    if mixed:
        (main,) = (kernel for kernel in backward.kernels if "workspace" in kernel.call and kernel not in sums)
        written = 3 * rows * 1024 * 4
        assert written < main.nbytes < 1.1 * written + sum(each.nbytes for each in sums)
        assert main.origins and any(main.node_by_line), "its lines are tied to nodes as others are"
        assert all(origin.op == "aten.sum.dim_IntList" for each in sums for origin in each.origins)
