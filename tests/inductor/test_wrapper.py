"""The reader of Inductor's wrapper: what it says, held against Inductor's own records and against the allocator."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from chapters.shared import subjects
from compile_lab import memory
from compile_lab.inductor.generated import generated_code
from compile_lab.inductor.records import EXTERN
from compile_lab.inductor.traffic import generated_traffic
from compile_lab.inductor.wrapper import (
    Allocated,
    Called,
    Freed,
    Launched,
    Returned,
    Started,
    Summed,
    Taken,
    Waited,
    Wrapper,
)
from mini_model.model import MiniGPT, config

pytestmark = pytest.mark.processes

SOURCE = '''
cpp_a = async_compile.cpp_pybinding(['float*'], r"""
int kernel() {}
""")
triton_b = async_compile.triton('triton_b', 'def triton_b(): pass', device_str='cuda')
del async_compile

def partition_0(args):
    arg0_1, buf0, buf9 = args
    args.clear()
    with torch.cuda._DeviceGuard(0):
        torch.cuda.set_device(0)
        # [Provenance debug handles] triton_b:7
        # more
        raw_stream0 = get_raw_stream(0)
        triton_b.run(arg0_1, buf0, 8, stream=raw_stream0)
        del arg0_1
    return (buf0, buf9, )

class Runner:
    def call(self, args):
        arg0_1, s7 = args
        args.clear()
        assert_size_stride(arg0_1, (8, ), (1, ), 'input')
        buf0 = empty_strided_cuda((8, s7), (s7, 1), torch.bfloat16)
        partition0_args = [arg0_1, buf0, buf9]
        del arg0_1
        (buf0, buf9) = self.partitions[0](partition0_args)
        del partition0_args, buf9
        buf1 = reinterpret_tensor(buf0, (s7, 8), (8, 1), 0); del buf0  # reuse
        buf2 = empty_strided_cpu((4, 2), (2, 1), torch.int64)
        # [Provenance debug handles] torch.ops.aten.sort.stable:8
        buf3 = torch.ops.aten.sort.stable(buf1, dim=-1)
        buf4 = buf3[0]
        buf5 = buf3[1]
        del buf3, buf2
        extern_kernels.mm(buf4, reinterpret_tensor(buf5, (8, 8), (1, 8), 0), out=buf1)
        cpp_a(buf1)
        return (reinterpret_tensor(buf1, (8, ), (1, ), 0), None, s7, )

def benchmark_compiled_module(args, times=10, repeat=10):
    return print_performance(lambda: cpp_a(list(args)))
'''


def test_statements_are_read_in_the_order_in_which_they_run():
    wrapper = Wrapper.of(SOURCE)
    assert wrapper.kernels == {"cpp_a": ("cpp", "\nint kernel() {}\n"), "triton_b": ("triton", "def triton_b(): pass")}
    assert wrapper.arguments == ("arg0_1", "s7")
    buf0, launch, freed, given_back, taken, buf2, sort, *rest = wrapper.statements
    assert buf0 == Allocated("buf0", (8, "s7"), "bfloat16") and buf0.nbytes is None
    assert buf2 == Allocated("buf2", (4, 2), "int64") and buf2.nbytes == 64
    line = "triton_b.run(arg0_1, buf0, 8, stream=raw_stream0)"
    assert launch == Launched("triton_b", ("arg0_1", "buf0", "raw_stream0"), (), line, "triton_b:7")
    assert freed == Freed("arg0_1"), "by the partition that it was handed to, not before"
    assert given_back == Freed("buf9"), "where the partition has given it back"
    assert (taken.name, taken.old, taken.ends) == ("buf1", "buf0", True)
    assert isinstance(sort, Called) and (sort.op, sort.results) == ("aten.sort", ("buf4", "buf5"))
    assert rest[:2] == [Freed("buf3"), Freed("buf2")]
    assert rest[2].arguments == ("buf4", "buf5", "buf1") and rest[2].results == ()
    assert rest[-1] == Returned(("buf1", None, "s7"))
    assert [launch.op for launch in wrapper.launches] == ["triton_b", "cpp_a"]


def test_a_launch_is_found_by_its_number_or_by_its_kernel():
    wrapper = Wrapper.of(SOURCE)
    assert wrapper.line("triton_b", 7).startswith("triton_b.run(") and wrapper.line("cpp_a", None) == "cpp_a(buf1)"
    assert wrapper.line("torch.ops.aten.sort.stable", 8).startswith("buf3 = ")
    assert wrapper.line("triton", None) == "" == wrapper.line("extern_kernels.mm", 9)


def called(*lines):
    kernels = "triton_a = async_compile.triton('triton_a', 'def triton_a(): pass')\n"
    return Wrapper.of(kernels + "def call(args):\n" + "".join(f"    {line}\n" for line in lines))


def test_the_sums_that_finish_a_kernels_column_reductions_are_read_with_their_bytes():
    wrapper = called(
        "triton_a.run(arg0, buf9, workspace_0, 16384, 4096, stream=raw_stream0)",
        "buf4 = workspace_0[0 * (1024) * (4096) : (0 + 1) * (1024) * (4096)].view(1024, 4096).sum(dim=0).view([4096])",
        "buf6 = workspace_0[1 * 1024 * 4096 : (1 + 1) * 1024 * 4096].view(1024, 4096).amax(dim=0).to(torch.bfloat16)",
        "extern_kernels.mm(buf4, buf4, out=buf5)",
        "buf7 = workspace_1[0 * 4 * 4 : (0 + 1) * 4 * 4].view(4, 4).sum(dim=0)",
    )
    first, second = wrapper.sums_after("triton_a")
    assert (first.op, first.results, first.cast) == ("aten.sum", ("buf4",), False)
    assert (first.nbytes, first.out_nbytes) == (16_777_216, 16_384)
    assert (second.op, second.results, second.cast) == ("aten.amax", ("buf6",), True)
    assert isinstance(wrapper.calls[-1], Summed) and wrapper.sums_after("triton_b") == ()


def test_a_wait_names_the_place_of_its_collective():
    c10d = "torch.ops._c10d_functional"
    calls = called(
        f"buf1 = {c10d}.all_gather_into_tensor.default(arg0_1, 8, '0')",
        f"{c10d}.all_gather_into_tensor_out.default(reinterpret_tensor(buf0, (2, )), 8, '0', out=buf2)",
        f"{c10d}.all_reduce_.default(add_5, 'sum', '0')",
        f"{c10d}.wait_tensor.default(add_5)",
    ).calls
    assert [type(call) for call in calls] == [Started, Started, Started, Waited]
    assert [call.place for call in calls[:3]] == ["buf1", "buf2", "add_5"] and calls[3].arguments == ("add_5",)
    (both,) = called(f"{c10d}.wait_tensors.default([buf1, buf2])").calls
    assert isinstance(both, Waited) and both.arguments == ("buf1", "buf2")


def test_what_only_asserts_launches_nothing():
    wrapper = called(
        "assert_size_stride_grouped((arg0_1, arg1_1), ((8, ), (4, )), ((1, ), (1, )), 'input')",
        "assert_tensor_metadata(buf3, (0, ), (1, ), torch.float32, 'torch.ops.aten.mm.default')",
        "assert_alignment(buf3, 16, 'torch.ops.aten.mm.default')",
        "extern_kernels.mm(buf4, buf4, out=buf5)",
    )
    assert [call.op for call in wrapper.calls] == ["extern_kernels.mm"]


def test_a_module_that_is_no_python_wrapper_is_refused():
    with pytest.raises(ValueError, match=r"has no function `call`.*cpp_wrapper"):
        Wrapper.of("call = _wrap_func(inductor_entry)")
    with pytest.raises(ValueError, match="is not Python"):
        Wrapper.of("#include <torch/csrc/inductor/cpp_wrapper/cpu.h>\nvoid call() {}")


def test_both_sides_of_a_branch_are_read():
    code = generated_code(lambda x, p: torch.cond(p, torch.sin, torch.cos, (x,)), torch.randn(8), torch.tensor(True))
    *branches, wrapper = (Wrapper.of(graph.wrapper) for graph in code.graphs)
    assert [len(branch.launches) for branch in branches] == [1, 1], "each is a graph of its own, too"
    assert [launch.op for launch in wrapper.launches] == list(wrapper.kernels) and len(wrapper.launches) == 2


# What Inductor writes


@pytest.fixture(scope="module", params=[None, "H200"])
def step(request):
    """Of a small GPT: forward and backward, for the CPU and for a GPU that is not here."""
    torch.manual_seed(0)
    model = MiniGPT(replace(config("mini"), layers=1, tied_head=True))
    return generated_code(model, *subjects.tokens(model, 2), chip=request.param)


@pytest.mark.slow
def test_every_launch_that_inductor_announced_is_there_and_no_other(step):
    for graph in step.graphs:
        launches = Wrapper.of(graph.wrapper).launches
        assert [each.op for each in launches] == [k.name for k in graph.kernels if k.language != EXTERN] != []
        assert [each.line for each in launches] == [k.call for k in graph.kernels if k.language != EXTERN]


def test_names_and_bytes_are_inductors_own(step):
    for graph in step.graphs:
        wrapper = Wrapper.of(graph.wrapper)
        known = {buffer.name: buffer for buffer in graph.buffers}
        assert set(wrapper.arguments) <= set(known), "no symbolic size is among them"
        asked = [each for each in wrapper.statements if isinstance(each, Allocated)]
        assert [(each.shape, each.dtype, each.nbytes) for each in asked] == [
            (buffer.shape, buffer.dtype, buffer.nbytes) for buffer in (known[each.name] for each in asked)
        ]
        taken = {each.name for each in wrapper.statements if isinstance(each, Taken)}
        returned = {name for each in wrapper.statements if isinstance(each, Returned) for name in each.names if name}
        made = {name for call in wrapper.calls for name in call.results}
        assert returned <= {each.name for each in asked} | taken | made | set(wrapper.arguments)


def mlp():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 8))


def figures(of):
    return of.peak_nbytes, of.held_nbytes, of.left_nbytes


@pytest.mark.slow
def test_predicted_bytes_are_the_allocators_with_donation_and_tuples():
    model, x = mlp(), torch.randn(16, 32)

    def forward():
        values, order = model(x).sort()
        return (values * order).square().mean()

    predicted = memory.lifetimes(generated_code(forward))
    measured = memory.measure_step(torch.compile(forward), lambda: model.zero_grad(set_to_none=True))
    measured.require_compiled()
    assert figures(predicted) == figures(measured)


def test_a_wrapper_in_partitions_does_what_it_does_in_one_piece():
    model, x = mlp(), torch.randn(16, 32)
    whole, parts = (
        generated_code(lambda: model(x).square().mean(), chip="H200", options={"triton.cudagraphs": parted})
        for parted in (False, True)
    )
    assert "partition_0" in parts.wrapper and "partition_0" not in whole.wrapper
    first, second = (memory.lifetimes(code) for code in (whole, parts))
    assert figures(first) == figures(second)
    assert [moment.name for moment in first.timeline] == [moment.name for moment in second.timeline]
    assert {(b.name, b.role) for b in generated_traffic(whole).buffers} == {
        (b.name, b.role) for b in generated_traffic(parts).buffers
    }


@pytest.mark.slow
def test_buffers_of_a_symbolic_size_count_as_they_were_traced():
    x = torch.randn(33, 16, requires_grad=True)
    torch._dynamo.mark_dynamic(x, 0)
    traffic = generated_traffic(generated_code(lambda x: (x.sin() @ x.t()).softmax(-1), x))
    assert [each.nbytes for each in traffic.in_role("result", "forward")] == [33 * 33 * 4]


UNWRITTEN = """
def call(self, args):
    primals_1, tangents_1 = args
    buf0 = empty_strided_cuda((8, 4), (4, 1), torch.float32)
    extern_kernels.mm(primals_1, tangents_1, out=buf0)
    buf1 = empty_strided_cuda((1, 4, 8), (32, 8, 1), torch.float32)
    buf2 = reinterpret_tensor(buf1, (1, 1, 8), (32, 8, 1), 0)  # alias
    {write}
    return (buf0, buf1, None, )
"""


@pytest.mark.parametrize(
    ("write", "found"),
    [
        ("del primals_1", ("buf1",)),
        ("triton_a.run(primals_1, buf2, 8, stream=raw_stream0)", ()),
        ("buf2.copy_(primals_1)", ()),
        ("buf1 = torch.ops.aten.sin.default(primals_1)", ()),
    ],
)
def test_a_result_that_no_call_is_given_is_told(write, found):
    assert Wrapper.of(UNWRITTEN.format(write=write)).unwritten == found
