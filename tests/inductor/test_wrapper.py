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
from compile_lab.inductor.wrapper import Allocated, Returned, Taken, Wrapper
from mini_model.model import MiniGPT, config

pytestmark = pytest.mark.processes


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


@pytest.fixture(scope="module", params=[pytest.param(None, marks=pytest.mark.matrix), "H200"])
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


def test_a_wrapper_in_partitions_does_what_it_does_in_one_piece():
    model, x = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 8)), torch.randn(16, 32)
    whole, parts = (
        generated_code(lambda: model(x).square().mean(), chip="H200", options={"triton.cudagraphs": parted})
        for parted in (False, True)
    )
    assert "partition_0" in parts.wrapper and "partition_0" not in whole.wrapper
    first, second = (memory.lifetimes(code) for code in (whole, parts))
    for each in ("peak_nbytes", "held_nbytes", "left_nbytes"):
        assert getattr(first, each) == getattr(second, each)
    assert [moment.name for moment in first.timeline] == [moment.name for moment in second.timeline]
    one, other = ({(b.name, b.role) for b in generated_traffic(code).buffers} for code in (whole, parts))
    assert one == other


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
