"""What a step launches, moves and keeps: eager by its operators, generated code by its wrapper."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from compile_lab.inductor.generated import generated_code
from compile_lab.inductor.traffic import eager_traffic, generated_traffic
from compile_lab.recordings import load

ROWS, D = 4096, 512
ONE = ROWS * D * 4


def shapes(*sizes):
    return [torch.empty(size, device="meta", requires_grad=True) for size in sizes]


def norm_of_gelu(h):
    return F.layer_norm(F.gelu(h), h.shape[-1:])


def names(launches):
    return [launch.name for launch in launches]


def test_eager_launches_one_operator_a_line_in_both_directions():
    found = eager_traffic(norm_of_gelu, *shapes((ROWS, D)))
    assert names(found.of("forward")) == ["gelu", "native_layer_norm"]
    assert names(found.of("backward")) == ["native_layer_norm_backward", "gelu_backward"]
    per_row = 2 * ROWS * 4
    assert found.nbytes("forward") == 4 * ONE + per_row, "read and write twice, and two numbers a row"
    assert found.nbytes("backward") == 6 * ONE + per_row


def test_the_norms_backward_is_a_kernel_more_where_its_gain_wants_a_gradient():
    """As on the recorded H200: ``layer_norm_grad_input_kernel``, then ``GammaBetaBackward``, which reads all again."""

    def with_gain(h, gain, shift):
        return F.layer_norm(F.gelu(h), h.shape[-1:], gain, shift)

    found = eager_traffic(with_gain, *shapes((ROWS, D), (D,), (D,)))
    norm = [launch for launch in found.launches if launch.name == "native_layer_norm_backward"]
    few = 4 * (2 * ROWS + 2 * D)  # mean and deviation of each row, gain and shift (or their gradients)
    assert len(norm) == 2
    assert 3 * ONE <= norm[0].nbytes <= 3 * ONE + few and 2 * ONE <= norm[1].nbytes <= 2 * ONE + 2 * few
    assert [one.name for one in found.in_role("intermediate")] == ["native_layer_norm_backward"]
    recorded = next(c for c in load("backward_fusion").result["cases"] if c["chain"] == "norm of gelu")
    kernels = [kernel["name"] for kernel in recorded["variants"]["eager"]["backward"]["kernels"]]
    assert sum("layer_norm_grad_input" in name or "GammaBetaBackward" in name for name in kernels) == len(norm)


def test_views_and_allocations_launch_nothing_and_products_are_told_apart():
    found = eager_traffic(nn.Linear(D, D), *shapes((ROWS, D)))
    assert [launch.kind for launch in found.launches] == ["matmul", "matmul", "matmul", "aten"]
    assert found.nbytes("backward", matmuls=False) == ONE + 4 * D, "the bias's gradient: a sum over all rows"


def test_two_parts_of_one_memory_are_two_reads_and_one_part_is_one():
    halves = eager_traffic(lambda x: torch.mul(*x.chunk(2)), *shapes((ROWS, D)))
    assert halves.nbytes("forward") == ONE + ONE / 2, "as q, k and v of one product: all of it is read"
    same = eager_traffic(lambda x: x * x, *shapes((ROWS, D)))
    assert same.nbytes("forward") == 2 * ONE, "read once, written once"


def test_generated_code_moves_each_tensor_once():
    found = generated_traffic(generated_code(norm_of_gelu, *shapes((ROWS, D)), chip="H200"))
    (backward,) = found.of("backward")
    assert backward.kind == "generated" and 3 * ONE <= backward.nbytes < 3.1 * ONE
    assert not found.in_role("intermediate", "backward")
    assert [one.nbytes for one in found.in_role("result", "backward")] == [ONE]
    assert sum(one.nbytes for one in found.in_role("saved")) == 2 * ROWS * 4, "mean and deviation of each row"
    with pytest.raises(ValueError, match="not known; it is one of"):
        found.in_role("temporary")
