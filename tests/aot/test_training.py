"""The joint graph, its two halves, and why each tensor between them is saved."""

import functools
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from small_gpt import graphs_of, leaf, small_gpt
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts
from torch.utils.flop_counter import FlopCounterMode

from compile_lab._torch.aot import aot_pieces
from compile_lab.aot.saved import folded
from compile_lab.aot.training import training_graphs
from compile_lab.eager.saved import eager_saved
from mini_model.model import GPTConfig, MiniGPT

pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def gpt():
    return small_gpt()


@pytest.fixture(scope="module")
def gpt_graphs(gpt):
    return graphs_of(*gpt)


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


def test_every_graph_says_where_its_operations_are_written_and_names_no_folder():
    def written_here(x, w):
        return torch.sin(x) @ w

    graphs = training_graphs(written_here, leaf(3, 4), leaf(4, 2))
    for code in (graphs.joint.code, graphs.forward.code, graphs.backward.code):
        assert "test_training.py, line " in code and "return torch.sin(x) @ w" in code
        assert "File: " not in code and str(Path(__file__).parent) not in code


@pytest.mark.slow
def test_it_saves_what_torch_really_keeps(gpt, gpt_graphs):
    model, tokens = gpt
    assert counts(gpt_graphs["min_cut"]) == inductor_keeps(model, tokens, tokens)


def test_a_tied_head_and_a_dropout_too():
    tied = torch.nn.Sequential(MiniGPT(GPTConfig(50, 16, 16, 1, 2, tied_head=True)), torch.nn.Dropout(0.5))
    tokens = torch.randint(0, 50, (2, 16))
    assert counts(training_graphs(tied, tokens)) == inductor_keeps(tied, tokens)


@pytest.mark.parametrize("partitioner", ["min_cut", "default"])
def test_the_two_graphs_compute_eager_gradients(gpt, gpt_graphs, partitioner):
    model, tokens = gpt
    graphs = gpt_graphs[partitioner]
    named = {"tokens": tokens, "targets": tokens, **dict(model.named_parameters())}
    inputs = [named[node.title] for node in graphs.forward.nodes if node.op == "input"]
    with torch.no_grad():
        loss, *saved = graphs.forward.module(*inputs)
        gradients = graphs.backward.module(*saved, torch.ones(()))
    wanted = model(tokens, tokens)
    torch.testing.assert_close(loss, wanted)
    parameters = dict(model.named_parameters())
    expected = dict(zip(parameters, torch.autograd.grad(wanted, list(parameters.values())), strict=True))
    titles = [node.title for node in graphs.forward.nodes if node.op == "input"]
    found = {title: each for title, each in zip(titles, gradients, strict=True) if title in parameters}
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)


def test_the_backward_reads_the_input_of_sin():
    graphs = training_graphs(lambda x: x.sin(), leaf(4))
    (only,) = graphs.saved
    assert (only.title, only.rule, only.extra_nbytes, only.resident) == ("x", "an input", 0, True)
    assert only.why == "an input: it is there anyway" and only.view_of == ""
    assert [reader.op for reader in only.readers] == ["aten.cos"] and only.source.line == only.readers[0].source.line


def test_a_matrix_product_is_not_computed_twice():
    graphs = training_graphs(lambda x, w: (x @ w).sin(), leaf(8, 4), leaf(4, 8))
    product = next(each for each in graphs.saved if each.op == "aten.mm")
    assert product.rule == "not in recomputable allowlist" and product.why.startswith("a matmul")
    assert product.extra_nbytes == product.nbytes == 8 * 8 * 4
    there = {each.title: each for each in graphs.saved if each.resident}
    assert set(there) == {"x", "w"} and there["w"].why == "a view of an input: it is there anyway"
    assert there["w"].op == "aten.permute" and there["w"].view_of == "primals_2"


def test_of_a_dropout_the_mask_is_saved_as_a_byte_an_element():
    graphs = training_graphs(lambda x: F.dropout(x.sin(), 0.5), leaf(8, 8))
    mask = next(each for each in graphs.saved if each.extra_nbytes)
    assert mask.dtype == "bool" and mask.extra_nbytes == 64 and mask.rule == "cheapest cut"
    assert "64 bytes here, 256 for what it is computed from (inductor_random)" in mask.why


def test_layer_norm_keeps_its_statistics_not_its_output():
    def norm(x, w):
        return F.layer_norm(x @ w, (64,)).sin().sum()

    saved = training_graphs(norm, leaf(32, 64), leaf(64, 64)).saved
    kept = {each.shape: each.rule for each in saved if each.extra_nbytes}
    assert kept[(32, 64)] == "not in recomputable allowlist"
    assert {shape for shape in kept if shape != (32, 64)} <= {(32, 1)}


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


def test_a_chain_of_pointwise_work_is_computed_again_by_min_cut_only():
    def chain(x):
        return x.sin().exp().tanh().cos().sum()

    cut, plain = (training_graphs(chain, leaf(64), partitioner=name) for name in ("min_cut", "default"))
    assert cut.saved_nbytes == 0 and {each.op for each in cut.recomputed} == {"aten.sin", "aten.exp", "aten.tanh"}
    assert plain.saved_nbytes == 2 * 64 * 4 and not plain.recomputed
    assert all(each.rule == "default partitioner" for each in plain.saved if each.extra_nbytes)


def test_equal_layers_fold_into_one_line(gpt_graphs):
    saved = gpt_graphs["min_cut"].saved
    fold = folded(saved)
    assert sum(each.extra_nbytes for each in fold) == gpt_graphs["min_cut"].saved_nbytes
    assert sum(each.count for each in fold) == len(saved)
    up = next(each for each in fold if each.title.endswith("mlp.up.weight"))
    assert (up.title, up.count) == ("blocks.*.mlp.up.weight", 3)
    attention = next(each for each in fold if each.why.startswith("attention"))
    assert attention.count == 3 and "scaled_dot_product_attention" in attention.source.text


def test_backward_nodes_carry_the_line_of_the_forward(gpt_graphs):
    graphs = gpt_graphs["min_cut"]
    line = next(node.source for node in graphs.forward.nodes if node.source and "F.gelu" in node.source.text)
    back = {node.op for node in graphs.backward.at(line)}
    assert "aten.tanh" in back and "aten.mm" in back
    # Inductor's passes over the joint graph put in a few operations of their own, without a line.
    placed = [bool(node.source) for node in graphs.joint.nodes if node.is_op]
    assert sum(placed) > 0.95 * len(placed)
    assert graphs.joint["primals_1"].direction == "forward" and graphs.joint["tangents_1"].direction == "backward"
    assert any(node.module == "blocks.2.mlp" for node in graphs.backward.nodes)


def test_calls_are_tied_to_the_operations_they_became():
    def step(x, w, b):
        return F.gelu(F.linear(x, w, b)).sum()

    graphs = training_graphs(step, leaf(4, 8), leaf(6, 8), leaf(6))
    table = {each.call: each for each in graphs.decompositions}
    assert table["linear"].forward == ("aten.permute", "aten.addmm")
    assert table["linear"].backward.count("aten.mm") == 2 and "aten.erf" in table["gelu"].forward
    plain = training_graphs(step, leaf(4, 8), leaf(6, 8), leaf(6), decompositions="none")
    assert {each.call: each.forward for each in plain.decompositions}["gelu"] == ("aten.gelu",)


def test_mutation_becomes_a_value():
    def mutates(x, w):
        y = x * w
        y[0].mul_(2)
        return y.sin()

    ops = {node.op for node in training_graphs(mutates, leaf(4, 4), leaf(4, 4)).joint.nodes}
    assert not any(op.endswith("_") for op in ops) and "aten.select_scatter" in ops


def test_each_graph_of_a_broken_function_is_reported():
    def broken(x, w):
        y = (x @ w).sin()
        print("between")
        return (y @ w).cos().sum()

    graphs = training_graphs(broken, leaf(4, 4), leaf(4, 4))
    assert len(graphs.each) == 2 and graphs.breaks[0].source == 'print("between")'
    assert "one of 2 graphs" in str(graphs)


def test_a_budget_saves_less_and_symbolic_shapes_are_sized(gpt, gpt_graphs):
    model, tokens = gpt
    assert training_graphs(model, tokens, tokens, memory_budget=0).saved_nbytes == 0
    x = leaf(6, 4)
    torch._dynamo.mark_dynamic(x, 0)
    graphs = training_graphs(lambda x, w: (x @ w).sin().sum(), x, leaf(4, 4))
    assert graphs.saved_nbytes == 6 * 4 * 4


def test_what_cannot_be_shown_is_refused():
    with pytest.raises(TypeError, match="fn is 3; it must be of type Callable"):
        training_graphs(3)
    with pytest.raises(ValueError, match=r"partitioner='best' is not known; it is one of 'min_cut', 'default'"):
        training_graphs(torch.sin, leaf(2), partitioner="best")
    with pytest.raises(ValueError, match="memory_budget is 2"):
        training_graphs(torch.sin, leaf(2), memory_budget=2)
    with pytest.raises(ValueError, match="has requires_grad=True"):
        training_graphs(lambda x: x.sin(), torch.ones(2))
    with torch.no_grad(), pytest.raises(ValueError, match="grad mode is off"):
        training_graphs(lambda x: x.sin(), leaf(2))
    with FlopCounterMode(display=False), pytest.raises(RuntimeError, match="No compiled graph ran"):
        training_graphs(lambda x: x.sin(), leaf(2))


def test_eager_keeps_count_and_line():
    def step(x, w):
        return (x @ w).sin().exp().sum()

    x, w = leaf(8, 8), leaf(8, 8)
    kept = eager_saved(step, x, w)
    assert [each.resident for each in kept] == [True, True, False, False]
    assert sum(each.extra_nbytes for each in kept) == 2 * 8 * 8 * 4
    assert all("sin().exp()" in each.source.text for each in kept)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["bert", "resnet"])
def test_a_model_nobody_here_wrote(kind):
    transformers = pytest.importorskip("transformers")
    sizes = {
        "bert": {"vocab_size": 100, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2},
        "resnet": {"embedding_size": 8, "hidden_sizes": [8], "depths": [1]},
    }[kind]
    model = transformers.AutoModel.from_config(transformers.AutoConfig.for_model(kind, **sizes))
    inputs = torch.randint(5, 90, (2, 8)) if kind == "bert" else torch.randn(2, 3, 16, 16)
    graphs = training_graphs(model, inputs)
    assert len(graphs.each) == 1 and graphs.saved_nbytes > 0
    assert all(each.source and each.readers and each.why for each in graphs.saved)
    assert all("transformers" in str(each.source) for each in graphs.saved)
