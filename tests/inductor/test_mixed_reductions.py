"""Kernels that reduce along rows and columns at once, and the calls that finish what they begin: all are launches."""

import pytest
import torch
from torch import nn

from compile_lab.inductor import generated as inductor
from compile_lab.inductor.records import EXTERN

pytestmark = pytest.mark.processes


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
