"""The joint graph, its two halves, and why each tensor between them is saved."""

import functools

import pytest
import torch
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

from compile_lab._torch.aot import aot_pieces
from compile_lab.aot.training import training_graphs
from mini_model.model import GPTConfig, MiniGPT

pytestmark = pytest.mark.processes


def leaf(*shape):
    return torch.randn(*shape, requires_grad=True)


@pytest.fixture(scope="module")
def gpt():
    """A GPT of three layers, and tokens."""
    torch.manual_seed(0)
    return MiniGPT(GPTConfig(vocabulary=50, context=16, dim=16, layers=3, heads=2)), torch.randint(0, 50, (2, 16))


@pytest.fixture(scope="module")
def gpt_graphs(gpt):
    """Its graphs from both partitioners."""
    model, tokens = gpt
    return {name: training_graphs(model, tokens, tokens, partitioner=name) for name in ("min_cut", "default")}


def inductor_keeps(fn, *args):
    """Tensors, buffers and bytes that autograd holds after a forward through Inductor's own path, less code."""
    from torch._inductor.compile_fx import compile_fx

    def nothing(module, inputs, **_):
        return aot_pieces().boxed_nop(module, inputs)

    torch.compiler.reset()
    out = torch.compile(fn, backend=lambda module, inputs: compile_fx(module, inputs, inner_compile=nothing))(*args)
    there = [*args, *fn.parameters(), *fn.buffers()] if isinstance(fn, torch.nn.Module) else args
    there = {each.untyped_storage()._cdata for each in there}
    held = out.grad_fn.saved_tensors
    buffers = {each.untyped_storage()._cdata: each.untyped_storage().nbytes() for each in held}
    extra = [size for at, size in buffers.items() if at not in there]
    return len(held), len(extra), sum(extra)


def counts(graphs):
    return len(graphs.saved), sum(bool(each.extra_nbytes) for each in graphs.saved), graphs.saved_nbytes


@pytest.mark.slow
def test_it_saves_what_torch_really_keeps(gpt, gpt_graphs):
    model, tokens = gpt
    assert counts(gpt_graphs["min_cut"]) == inductor_keeps(model, tokens, tokens)


def test_with_a_tied_head_and_a_dropout_too(gpt):
    tied = torch.nn.Sequential(MiniGPT(GPTConfig(50, 16, 16, 1, 2, tied_head=True)), torch.nn.Dropout(0.5))
    assert counts(training_graphs(tied, gpt[1])) == inductor_keeps(tied, gpt[1])


@pytest.mark.parametrize("partitioner", ["min_cut", "default"])
def test_the_two_graphs_compute_eager_gradients(gpt, gpt_graphs, partitioner):
    model, tokens = gpt
    graphs = gpt_graphs[partitioner]
    parameters = dict(model.named_parameters())
    named = {"tokens": tokens, "targets": tokens, **parameters}
    titles = [node.title for node in graphs.forward.nodes if node.op == "input"]
    with torch.no_grad():
        loss, *saved = graphs.forward.module(*(named[title] for title in titles))
        gradients = graphs.backward.module(*saved, torch.ones(()))
    wanted = model(tokens, tokens)
    torch.testing.assert_close(loss, wanted)
    expected = dict(zip(parameters, torch.autograd.grad(wanted, list(parameters.values())), strict=True))
    found = {title: each for title, each in zip(titles, gradients, strict=True) if title in parameters}
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)


def test_a_checkpoint_policy_is_named_as_the_reason():
    def policy(ctx, op, *args, **kwargs):
        save = op == torch.ops.aten.mm.default
        return CheckpointPolicy.MUST_SAVE if save else CheckpointPolicy.PREFER_RECOMPUTE

    def region(x, w):
        return ((x @ w).sin() @ w).cos()

    def step(x, w):
        contexts = functools.partial(create_selective_checkpoint_contexts, policy)
        return checkpoint(region, x, w, use_reentrant=False, context_fn=contexts).sum()

    graphs = training_graphs(step, leaf(8, 8), leaf(8, 8))
    assert {each.rule for each in graphs.saved if each.extra_nbytes} == {"marked MUST_SAVE"}
    assert [each.op for each in graphs.recomputed] == ["aten.sin"]


def test_each_graph_of_a_broken_function_is_reported():
    def broken(x, w):
        y = (x @ w).sin()
        print("between")
        return (y @ w).cos().sum()

    graphs = training_graphs(broken, leaf(4, 4), leaf(4, 4))
    assert len(graphs.each) == 2 and graphs.breaks[0].source == 'print("between")'
    assert "one of 2 graphs" in str(graphs)


def test_symbolic_shapes_are_sized():
    x = leaf(6, 4)
    torch._dynamo.mark_dynamic(x, 0)
    graphs = training_graphs(lambda x, w: (x @ w).sin().sum(), x, leaf(4, 4))
    assert graphs.saved_nbytes == 6 * 4 * 4
