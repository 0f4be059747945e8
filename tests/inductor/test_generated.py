"""Kernels, groups and lines: what Inductor wrote, and for what. The CPU's code is run, a chip's is only written."""

import pytest
import torch
import torch.nn.functional as F

from compile_lab.inductor.generated import generated_code
from compile_lab.inductor.lowering import collecting
from compile_lab.inductor.records import EXTERN
from compile_lab.inductor.wrapper import Wrapper

pytestmark = pytest.mark.processes


def linear_softmax(x, weight, bias):
    y = F.linear(x, weight, bias)
    return torch.softmax(y, dim=-1)


def inputs(requires_grad):
    torch.manual_seed(0)
    return torch.randn(8, 16), torch.randn(24, 16, requires_grad=requires_grad), torch.randn(24)


def test_every_entry_of_the_schedule_goes_into_one_group():
    for graph in generated_code(linear_softmax, *inputs(True), chip="H200").graphs:
        before = sorted(part for group in graph.before for part in group.parts)
        assert sorted(part for group in graph.after for part in group.parts) == before
        assert len(graph.after) < len(graph.before)


def test_without_a_chip_the_code_is_the_cpus_and_has_run_and_no_gradient_is_left_behind():
    x, weight, bias = inputs(True)
    code = generated_code(linear_softmax, x, weight, bias)
    assert {kernel.language for kernel in code.kernels} == {EXTERN, "cpp"} and weight.grad is None
    assert any("at::vec::Vectorized" in kernel.body for kernel in code.written)
    assert code.provenance.kind == "live" and not code.breaks and not code.trouble


@pytest.mark.slow
def test_what_is_written_into_a_part_of_another_buffer_has_the_bytes_that_it_writes():
    x = torch.randn(2, 16, 64, requires_grad=True)
    code = generated_code(lambda: F.adaptive_avg_pool1d(x.transpose(1, 2), 1).flatten(1).square().sum())
    backward = code.graphs[1]
    assert backward.direction == "backward"
    assert {buffer.nbytes for buffer in backward.buffers if buffer.shape == (2, 64)} == {2 * 64 * 4}


def test_listening_changes_no_kernel():
    def plainly():
        from torch._inductor.utils import run_and_get_code

        with torch._inductor.config.patch({"fx_graph_cache": False, "trace.provenance_tracking_level": 1}):
            return run_and_get_code(torch.compile(linear_softmax), *inputs(False))[1]

    (wrapper,) = plainly()
    torch._dynamo.reset()
    with collecting() as graphs:
        plainly()
    assert Wrapper.of(graphs[0].wrapper).kernels == Wrapper.of(wrapper).kernels != {}


def test_what_fails_after_a_first_graph_is_trouble_and_no_exception():
    def fails(x):
        x = x.sin()
        print(x.sum())
        raise ValueError("on purpose")

    code = generated_code(fails, torch.randn(4, 4))
    assert code.graphs and code.trouble == ("ValueError: on purpose",)
