"""What Inductor's wrapper takes over: read from a wrapper by hand, and from one that Inductor wrote just now."""

from dataclasses import fields

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from compile_lab._torch.aot import functorch_config
from compile_lab.inductor import generated as inductor
from compile_lab.inductor.generated import GeneratedCode, generated_code
from compile_lab.inductor.records import EXTERN, InductorGraph
from compile_lab.inductor.reuse import Reuse, buffer_reuse
from compile_lab.recordings import here

WRAPPER = """
twice = async_compile.triton('twice', 'def twice(in_out_ptr0, in_ptr0, xnumel):')
once = async_compile.triton('once', 'def once(in_out_ptr0, in_ptr0, xnumel):')
def call(self, args):
    primals_1, saved_1 = args
    args.clear()
    buf0 = empty_strided_cuda((8, ), (1, ), torch.float32)
    buf1 = buf0; del buf0  # reuse
    twice.run(buf1, primals_1, 8, stream=stream0)
    del primals_1
    buf2 = saved_1; del saved_1  # reuse
    once.run(buf2, buf1, 8, stream=stream0)
    buf3 = reinterpret_tensor(buf1, (4, 2), (2, 1), 0); del buf1  # reuse
    extern_kernels.mm(buf2, buf2, out=buf3)
    del buf2
    return (buf3, )
"""


def code_of(wrapper):
    nothing = dict.fromkeys((field.name for field in fields(InductorGraph)), ())
    graph = InductorGraph(**{**nothing, "direction": "backward", "wrapper": wrapper})
    return GeneratedCode((graph,), None, here("test", device="cpu"))


def test_allocated_freed_and_taken_over_are_told_apart():
    (found,) = buffer_reuse(code_of(WRAPPER))
    assert (found.allocated, found.freed, found.reused, found.donated) == (1, 1, 1, 1)
    assert [each.in_place for each in found.taken] == [True, False]
    assert found.taken[0].line == "buf2 = saved_1; del saved_1  # reuse"


def test_a_buffer_renamed_before_it_was_written_is_not_reused():
    (found,) = buffer_reuse(code_of(WRAPPER.partition("    del primals_1")[0]))
    assert found == Reuse("backward", allocated=1, freed=0, taken=())


@pytest.mark.slow
def test_a_backward_takes_over_what_the_forward_saved_only_if_it_may():
    torch.manual_seed(0)
    a, b = (torch.randn(16, 16, requires_grad=True) for _ in range(2))
    found = {}
    for donated in (True, False):
        with functorch_config.patch(donated_buffer=donated):
            code = generated_code(lambda x: (F.gelu(x @ a) @ b).square().mean(), torch.randn(32, 16))
        found[donated] = {each.direction: each for each in buffer_reuse(code)}
    assert found[True]["backward"].donated > 0 == found[False]["backward"].donated
    assert all(each.in_place for each in found[True]["backward"].taken if each.donated)
    assert found[True]["backward"].allocated < found[False]["backward"].allocated
    assert found[True]["forward"].donated == 0


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
