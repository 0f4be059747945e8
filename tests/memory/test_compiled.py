"""Lifetimes read off Inductor's wrapper where it calls what torch has, instead of writing a kernel of its own."""

from dataclasses import replace

import pytest
import torch
from torch.nn.attention.flex_attention import flex_attention
from torch.utils.checkpoint import checkpoint

from compile_lab.aot.training import training_graphs
from compile_lab.inductor.generated import generated_code
from compile_lab.memory import kernels_left_out, lifetimes, measure_peak, measure_step
from compile_lab.memory.compiled import compiled_lifetimes
from mini_model.model import MINI, MiniGPT

from .programs import measured

pytestmark = pytest.mark.processes


@pytest.mark.slow
def test_a_step_asks_for_the_same_bytes_with_its_kernels_left_out_and_computes_again_afterwards():
    torch.manual_seed(0)
    model = MiniGPT(replace(MINI, layers=1))
    tokens = torch.randint(0, 600, (2, 32))
    compiled = torch.compile(model)

    def peak():
        return measure_step(lambda: compiled(tokens, tokens), model.zero_grad)

    with kernels_left_out():
        asked = peak()
        asked.require_compiled()
    with_kernels = peak()
    assert asked.peak_nbytes == with_kernels.peak_nbytes
    assert asked.held_nbytes == with_kernels.held_nbytes
    torch.testing.assert_close(compiled(tokens, tokens), model(tokens, tokens))


def test_a_kernel_that_asks_for_memory_itself_is_not_left_out():
    q = torch.ones(1, 1, 128, 16)
    with torch.no_grad(), kernels_left_out(), pytest.raises(RuntimeError, match="asks the allocator"):
        torch.compile(flex_attention)(q, q, q)


def drawn(*shape, dtype=torch.float32):
    torch.manual_seed(0)
    return torch.randn(*shape, dtype=dtype, requires_grad=True)


@torch.library.custom_op("test_compiled::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2


twice.register_fake(torch.empty_like)
twice.register_autograd(lambda ctx, grad: grad * 2)

PAIR = torch.complex64
PROGRAMS = {
    "fourier": (lambda x, w: torch.fft.irfft2(torch.fft.rfft2(x) * w), (drawn(16, 64, 64), drawn(64, 33, dtype=PAIR))),
    "one real operation on complex numbers": (lambda x: torch.fft.rfft(x).abs(), (drawn(256, 256),)),
    "a part of complex numbers": (
        lambda a, b: (a * b).real,
        (drawn(128, 128, dtype=PAIR), drawn(128, 128, dtype=PAIR)),
    ),
    "complex numbers seen as real": (lambda a: torch.view_as_real(a * a).sum(-1), (drawn(128, 128, dtype=PAIR),)),
    "a scan": (lambda x: torch.cumsum(x, 0) + 1, (drawn(256, 256),)),
    "a scan with two results": (lambda x: x.cummax(0)[0], (drawn(128, 128),)),
    "a custom operator": (lambda x, w: twice(x @ w), (drawn(256, 256), drawn(256, 256))),
    "one of two results": (lambda x: x.sort(1)[0] * 2, (drawn(256, 256),)),
    "written into in place": (
        lambda x, at: torch.zeros(64, 32).index_add(0, at, x),
        (drawn(256, 32), torch.arange(256) % 64),
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_peak_is_the_allocators(name):
    program, given = PROGRAMS[name]
    torch.compiler.reset()
    predicted = compiled_lifetimes(generated_code(program, *given)).peak_nbytes
    assert predicted == pytest.approx(measured(program, given).peak_nbytes, rel=0.01)


@pytest.mark.slow
def test_dropout_that_is_run_again_keeps_a_state_of_the_random_numbers():
    """Checkpointed attention with dropout: the state stands beside a tuple of results, in the graph and in the code."""
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    x = torch.randn(4, 64, 16, requires_grad=True)

    def program(x):
        return checkpoint(layer, x, use_reentrant=False).square().mean()

    def forget():
        layer.zero_grad()
        x.grad = None

    torch.compiler.reset()
    predicted = compiled_lifetimes(generated_code(program, x)).peak_nbytes
    bound = lifetimes(training_graphs(program, x)).peak_nbytes
    assert not generated_code(program, x, chip="H200").trouble
    torch.compiler.reset()
    compiled = torch.compile(program)
    compiled(x).backward(), forget()
    measured = measure_peak(lambda: compiled(x).backward(), forget).peak_nbytes
    assert predicted == pytest.approx(measured, rel=0.01) and bound > 0.8 * measured


def test_a_buffer_that_nothing_known_makes_is_named():
    code = generated_code(lambda x: x.cumsum(0) + 1, torch.ones(8, 8))
    (graph,) = code.graphs
    cut = graph.wrapper.replace("buf0 = torch.ops.aten.cumsum", "other = torch.ops.aten.cumsum")
    with pytest.raises(ValueError, match="buf0 is used in this wrapper, and no statement that is known here makes it"):
        compiled_lifetimes(replace(code, graphs=(replace(graph, wrapper=cut),)))
