"""Kernels, groups and lines: what Inductor wrote, and for what. The CPU's code is run, a chip's is only written."""

import pickle

import pytest
import torch
import torch.nn.functional as F
from torch.utils.flop_counter import FlopCounterMode

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


@pytest.fixture(scope="module")
def training():
    return generated_code(linear_softmax, *inputs(True), chip="H200")


def line_of(kernel):
    return [line.text for line in kernel.lines]


def test_forward_and_backward_are_generated_for_a_chip_that_is_not_here(training):
    assert [graph.direction for graph in training.graphs] == ["forward", "backward"]
    product, softmax = training.graphs[0].kernels
    assert product.language == EXTERN and "extern_kernels.addmm(" in product.source
    assert softmax.language == "triton" and f"def {softmax.name}(" in softmax.body
    assert "computed, not measured, for NVIDIA H200" in str(training.provenance)


def test_each_kernel_knows_the_lines_it_computes(training):
    product, softmax = training.graphs[0].kernels
    assert line_of(product) == ["y = F.linear(x, weight, bias)"]
    assert "return torch.softmax(y, dim=-1)" in line_of(softmax)
    backward = training.graphs[1].kernels
    assert any(k.language == EXTERN and line_of(k) == ["y = F.linear(x, weight, bias)"] for k in backward)


def test_a_line_of_a_kernel_knows_the_line_of_python_that_asked_for_it():
    def two_lines(x):
        y = x.sin()
        return y * 3.5

    (kernel,) = generated_code(two_lines, torch.randn(64), chip="H200").kernels
    first, second = kernel.lines
    body = kernel.body.split("\n")
    assert any("sin(" in body[at - 1] for at in kernel.computing(first))
    assert any("3.5" in body[at - 1] for at in kernel.computing(second))
    assert not set(kernel.computing(first)) & set(kernel.computing(second))


def test_what_a_launch_moves_is_counted_in_bytes(training):
    softmax = training.graphs[0].kernels[1]
    assert softmax.nbytes == 2 * 8 * 24 * 4  # read the product, write the result
    for graph in training.graphs:
        assert sum(kernel.nbytes for kernel in graph.kernels) == graph.fused_nbytes < graph.unfused_nbytes


def test_every_entry_of_the_schedule_goes_into_one_group(training):
    for graph in training.graphs:
        before = sorted(part for group in graph.before for part in group.parts)
        assert sorted(part for group in graph.after for part in group.parts) == before
        assert len(graph.after) < len(graph.before)


def test_a_boundary_says_why_two_kernels_are_not_one(training):
    (boundary,) = training.graphs[0].boundaries
    assert boundary.first.kind == EXTERN and "a library's code" in boundary.reason

    def global_maximum(x):
        return x / x.abs().max()

    code = generated_code(global_maximum, torch.randn(4096, 1024), chip="H200")
    reasons = [boundary.reason for boundary in code.graphs[0].boundaries]
    assert len(code.kernels) == 3 and any("numel" in reason for reason in reasons)


def test_without_a_chip_the_code_is_the_cpus_and_has_run_and_no_gradient_is_left_behind():
    x, weight, bias = inputs(True)
    code = generated_code(linear_softmax, x, weight, bias)
    assert {kernel.language for kernel in code.kernels} == {EXTERN, "cpp"} and weight.grad is None
    assert any("at::vec::Vectorized" in kernel.body for kernel in code.written)
    assert code.provenance.kind == "live" and not code.breaks and not code.trouble


def test_without_gradients_there_is_inference_code_only():
    with torch.no_grad():
        code = generated_code(linear_softmax, *inputs(True), chip="H200")
    assert [graph.direction for graph in code.graphs] == ["inference"]


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


def test_the_records_travel_between_processes(training):
    assert pickle.loads(pickle.dumps(training.graphs)) == training.graphs


@pytest.mark.slow
def test_a_break_is_reported_with_the_kernels_of_all_parts():
    def broken(x):
        x = x.sin()
        torch._dynamo.graph_break()
        return x.cos()

    code = generated_code(broken, torch.randn(4, 4))
    assert len(code.graphs) == 2 and len(code.breaks) == 1


def test_what_fails_after_a_first_graph_is_trouble_and_no_exception():
    def fails(x):
        x = x.sin()
        print(x.sum())
        raise ValueError("on purpose")

    code = generated_code(fails, torch.randn(4, 4))
    assert code.graphs and code.trouble == ("ValueError: on purpose",)


def under_a_dispatch_mode():
    with FlopCounterMode(display=False):
        return generated_code(linear_softmax, *inputs(False))


def raises(x):
    raise ValueError("on purpose")


@pytest.mark.parametrize(
    ("call", "error", "word"),
    [
        (lambda: generated_code(3), TypeError, "fn is 3"),
        (lambda: generated_code(raises, options={"no_such_option": 1}), TypeError, "'no_such_option'"),
        (lambda: generated_code(raises, torch.randn(2)), ValueError, "on purpose"),
        (under_a_dispatch_mode, RuntimeError, "No compiled graph ran"),
    ],
)
def test_wrong_use_is_refused(call, error, word):
    with pytest.raises(error, match=word):
        call()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gpt2", "resnet"])
def test_models_that_nobody_here_wrote(name):
    transformers = pytest.importorskip("transformers")
    sizes = {
        "gpt2": {"vocab_size": 50, "n_embd": 16, "n_head": 2, "n_layer": 1, "n_positions": 16, "use_cache": False},
        "resnet": {"embedding_size": 4, "hidden_sizes": [4, 8], "depths": [1, 1], "layer_type": "basic"},
    }
    if name == "gpt2":
        config = transformers.GPT2Config(**sizes[name], bos_token_id=0, eos_token_id=1)
        model, data = transformers.GPT2LMHeadModel(config), torch.randint(0, 50, (2, 8))
    else:
        model = transformers.ResNetModel(transformers.ResNetConfig(**sizes[name]))
        data = torch.randn(2, 3, 16, 16)
    code = generated_code(model.eval(), data, chip="H200")
    assert not code.breaks and not code.trouble
    assert {graph.direction for graph in code.graphs} == {"forward", "backward"}
    files = {line.file.rpartition("/")[2] for kernel in code.written for line in kernel.lines}
    assert f"modeling_{name}.py" in files
    assert all(kernel.origins and kernel.call for kernel in code.kernels)
