"""Lifetimes: predicted bytes are the allocator's bytes, for graphs, eager steps and generated code."""

import itertools
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from work import lines_run

from chapters.shared import subjects
from compile_lab import memory
from compile_lab.aot import training as aot
from compile_lab.aot.nodes import graph_of
from compile_lab.capture import NotCompiledError
from compile_lab.inductor import generated as inductor
from compile_lab.memory import measured as measured_module
from compile_lab.memory.differences import differences
from compile_lab.memory.graphs import graph_lifetimes
from mini_model.model import MiniGPT, config

pytestmark = pytest.mark.processes

PARTITIONS = {"default": ("default", "none"), "min_cut": ("min_cut", "inductor")}


def mlp():
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))
    x, y = torch.randn(128, 64), torch.randint(0, 10, (128,))
    return model, lambda: F.cross_entropy(model(x), y)


def minigpt():
    model = MiniGPT(replace(config("mini"), layers=2, tied_head=True))
    inputs = subjects.tokens(model, 2)
    return model, lambda: model(*inputs)


def gpt2():
    transformers = pytest.importorskip("transformers")
    sizes = {"n_layer": 2, "n_head": 2, "n_embd": 64, "vocab_size": 300, "n_positions": 32, "bos_token_id": 0}
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes, eos_token_id=0))
    x = torch.randint(0, 300, (4, 32))
    return model, lambda: F.cross_entropy(model(x, use_cache=False).logits.flatten(0, 1), x.flatten())


def bert():
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 128}
    model = transformers.BertForMaskedLM(transformers.BertConfig(**sizes, vocab_size=300))
    x = torch.randint(0, 300, (4, 32))
    return model, lambda: F.cross_entropy(model(x).logits.flatten(0, 1), x.flatten())


MODELS = {"mlp": mlp, "minigpt": minigpt, "gpt2": gpt2, "bert": bert}


def trained(forward):
    loss = forward()
    loss.backward()
    return loss


def predicted_and_measured(model, forward, how):
    def reset():
        model.zero_grad(set_to_none=True)

    reset()
    if how == "eager":
        predicted = memory.eager_lifetimes(lambda: trained(forward), model)
        return predicted, memory.measure_step(forward, reset)
    partitioner, decompositions = PARTITIONS[how]
    options = {"partitioner": partitioner, "decompositions": decompositions}
    predicted = memory.lifetimes(aot.training_graphs(forward, **options))
    measured = memory.measure_step(aot.as_graphs(forward, **options), reset)
    measured.require_compiled()
    return predicted, measured


def figures(of):
    return of.peak_nbytes, of.held_nbytes, of.left_nbytes


# Prediction and allocator


@pytest.mark.parametrize("how", ["eager", *PARTITIONS])
@pytest.mark.parametrize(
    "name", ["minigpt", *(pytest.param(x, marks=pytest.mark.matrix) for x in MODELS if x != "minigpt")]
)
def test_the_predicted_bytes_are_the_allocators(name, how):
    torch.manual_seed(0)
    model, forward = MODELS[name]()
    predicted, measured = predicted_and_measured(model, forward, how)
    found = differences(predicted, measured)
    if (name, how) == ("gpt2", "eager"):
        # Numbers that are operands: Python makes tensors of them where no mode looks, and autograd keeps them.
        assert [(each.op, each.measured_nbytes - each.predicted_nbytes) for each in found] == [("Python", 6 * 8)]
    else:
        assert found == () and figures(predicted) == figures(measured)
    assert predicted.left_nbytes >= sum(p.nbytes for p in model.parameters())
    assert predicted.held_nbytes < predicted.peak_nbytes


@pytest.mark.parametrize("how", ["eager", "default"])
def test_what_a_librarys_kernel_takes_for_itself_is_named(how):
    model = subjects.resnet()
    x, y = torch.randn(2, 3, 32, 32), torch.randint(0, 10, (2,))
    predicted, measured = predicted_and_measured(model, lambda: F.cross_entropy(model(x).logits, y), how)
    found = differences(predicted, measured)
    assert found and found[0].op == "aten.convolution_backward"
    total = sum(each.measured_nbytes - each.predicted_nbytes for each in found)
    assert total == measured.peak_nbytes - predicted.peak_nbytes > 0
    assert predicted.held_nbytes == measured.held_nbytes, "statistics that are updated in place are not held"


@pytest.mark.slow
def test_what_a_library_takes_and_gives_back_within_a_call_is_told_apart():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 64, 3, padding=1), nn.ReLU(), nn.Conv2d(64, 128, 3, padding=1))
    x = torch.randn(4, 3, 16, 16)

    def forward():
        return model(x).square().mean()

    code = inductor.generated_code(forward)
    measured = memory.measure_step(torch.compile(forward), model.zero_grad)
    assert memory.lifetimes(code).peak_nbytes == measured.between_calls_nbytes < measured.peak_nbytes


@pytest.mark.slow
def test_generated_code_is_followed_to_the_byte():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 8))
    x = torch.randn(16, 32)

    def forward():
        return model(x).square().mean()

    predicted = memory.lifetimes(inductor.generated_code(forward))
    measured = memory.measure_step(torch.compile(forward), lambda: model.zero_grad(set_to_none=True))
    measured.require_compiled()
    assert figures(predicted) == figures(measured)
    graphs = memory.lifetimes(aot.training_graphs(forward))
    assert predicted.peak_nbytes < graphs.peak_nbytes, "what is fused needs no buffer"
    assert {"gradient", "activation"} <= {tensor.kind for tensor in predicted.tensors}
    assert any(moment.source and "model(x)" in moment.source.text for moment in predicted.timeline)


def test_a_chip_that_is_not_here_has_lifetimes_too():
    model, _ = mlp()
    x, y = torch.randn(128, 64), torch.randint(0, 10, (128,))
    code = inductor.generated_code(lambda x, y: F.cross_entropy(model(x), y), x, y, chip="H200")
    predicted = memory.lifetimes(code)
    assert code.provenance.kind == "virtual"
    assert predicted.left_nbytes - 4 == sum(p.nbytes for p in model.parameters())
    assert any(moment.name.startswith("triton") for moment in predicted.timeline)


# Aliases


def lifetimes_of(fn, *args, **options):
    return memory.lifetimes(aot.training_graphs(fn, *args, **options))


def test_a_view_is_no_buffer_and_a_saved_view_keeps_its_base():
    w = torch.randn(32, 16, requires_grad=True)
    x = torch.randn(8, 32)

    def fn(x, w):
        return (x @ w).view(4, 32).transpose(0, 1).sin().sum()

    found = lifetimes_of(fn, x, w, partitioner="default", decompositions="none")
    assert not [tensor for tensor in found.tensors if tensor.op in ("aten.view", "aten.transpose")]
    (product,) = [t for t in found.tensors if t.op == "aten.mm" and t.kind == "activation"]
    assert product.nbytes == 8 * 16 * 4
    assert found.timeline[product.birth].phase == "forward" and found.timeline[product.death].phase == "backward"
    assert found.held_nbytes == product.nbytes + 4


def test_saving_a_view_of_a_parameter_holds_nothing():
    w = torch.randn(32, 16, requires_grad=True)
    x = torch.randn(8, 32, requires_grad=True)
    found = lifetimes_of(lambda x, w: (x @ w).sum(), x, w, partitioner="default", decompositions="none")
    assert found.held_nbytes == 4
    assert found.resident_nbytes == x.nbytes + w.nbytes


def test_a_gradient_that_lies_across_or_is_shared_is_copied():
    """`.grad` is laid out as its parameter, and each parameter has its own."""
    w = torch.randn(16, 32, requires_grad=True)
    a, b = torch.randn(100, requires_grad=True), torch.randn(100, requires_grad=True)

    def fn(w, a, b):
        return w.t().contiguous().exp().sum() + (a + b).exp().sum()

    def reset():
        w.grad = a.grad = b.grad = None

    options = {"partitioner": "default", "decompositions": "none"}
    found = lifetimes_of(fn, w, a, b, **options)
    copied = [moment.name for moment in found.timeline if moment.op == "AccumulateGrad"]
    assert copied == ["w.grad", "a.grad"], "the second of two that share a gradient gets the original"
    run = aot.as_graphs(fn, **options)
    measured = memory.measure_step(lambda: run(w, a, b), reset)
    assert figures(found) == figures(measured)
    assert not w.grad.t().is_contiguous() and a.grad.data_ptr() != b.grad.data_ptr()


def test_in_place_operations_make_no_buffer():
    x = torch.randn(1000)

    def step():
        y = x * 2
        y.add_(1).mul_(3)
        return y

    found = memory.eager_lifetimes(step)
    assert found.peak_nbytes == x.nbytes == found.left_nbytes
    assert [moment.name for moment in found.timeline] == ["mul", "add_", "mul_"]


# Eager steps


def test_kinds_and_phases_of_a_whole_step():
    model = nn.Linear(8, 4)
    optimizer = torch.optim.Adam(model.parameters(), foreach=False)
    x = torch.randn(16, 8)

    def step():
        trained(lambda: model(x).square().mean())
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    found = memory.eager_lifetimes(step, model, optimizer)
    assert [phase for phase in ("forward", "backward", "optimizer") if phase in {m.phase for m in found.timeline}] == [
        "forward",
        "backward",
        "optimizer",
    ]
    by_kind = {kind: [t for t in found.tensors if t.kind == kind] for kind in memory.KINDS}
    assert {t.name for t in by_kind["parameter"]} == {"weight", "bias"} and all(
        t.is_resident for t in by_kind["parameter"]
    )
    states = {t.name for t in by_kind["optimizer state"]}
    assert {"weight.exp_avg", "weight.exp_avg_sq", "bias.exp_avg", "bias.exp_avg_sq"} <= states
    assert sum(t.nbytes for t in by_kind["gradient"]) == (8 * 4 + 4) * 4
    assert all(t.death < len(found.timeline) for t in by_kind["gradient"]), "zero_grad lets go of them"
    again = memory.eager_lifetimes(step, model, optimizer)
    assert again.resident_nbytes > found.resident_nbytes, "the state is there from the second step on"


def test_fake_tensors_take_no_memory():
    """A step of 160 GB, looked at without any."""
    with memory.fake_tensors():
        model = nn.Linear(100_000, 100_000, bias=False)
        x = torch.empty(10, 100_000)
        found = memory.eager_lifetimes(lambda: trained(lambda: model(x).sum()), model)
    assert found.peak_nbytes > 40e9 and found.left_nbytes == 40_000_000_000 + 4


# The allocator


def test_a_temporary_shows_in_the_peak_and_is_gone_at_the_end():
    x = torch.randn(1000)
    peak = memory.measure_peak(lambda: x.sin().sum())
    assert (peak.peak_nbytes, peak.left_nbytes, peak.held_nbytes) == (4004, 4, None)
    assert peak.by_op() == {"aten.sin": 4000, "aten.sum": 4} and peak.compiled_graphs == 0
    with pytest.raises(NotCompiledError, match="eager"):
        peak.require_compiled()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="asks a GPU's allocator")
@pytest.mark.parametrize("how", ["eager", *PARTITIONS])
def test_a_gpus_allocator_gives_out_what_was_predicted(how):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.LayerNorm(1024), nn.Linear(1024, 10)).cuda()
    x = torch.randn(512, 256, device="cuda")
    predicted, measured = predicted_and_measured(model, lambda: model(x).square().mean(), how)
    assert figures(predicted) == figures(measured) and "NVIDIA" in measured.device
    assert measured.peak_nbytes <= measured.allocated_nbytes < 1.2 * measured.peak_nbytes
    assert sum(each.nbytes for each in measured.alive) == measured.peak_nbytes
    on_cpu = memory.measure_peak(lambda: torch.ones(1000).sin())
    assert (on_cpu.device, on_cpu.peak_nbytes) == ("CPU", 8000), "where the step allocates, whatever else is there"


def test_reset_is_called_before_each_run_and_is_not_measured():
    calls = []
    memory.measure_peak(lambda: calls.append(torch.ones(2).sum()), lambda: calls.append(torch.randn(10).numel()))
    assert calls == [10, 2.0, 10, 2.0]


def test_gradients_that_are_there_already_are_added_to():
    w = torch.randn(1000, requires_grad=True)
    fresh = memory.measure_step(lambda: (w * w).sum(), lambda: setattr(w, "grad", None))
    again = memory.measure_step(lambda: (w * w).sum())
    assert fresh.left_nbytes == 4004 and again.left_nbytes == 4


def test_gpu_memory_that_compiling_took_does_not_hide_what_a_cpus_step_allocates(monkeypatch):
    counts = itertools.count()
    monkeypatch.setattr(measured_module, "_gpu_allocations", lambda: next(counts))
    empty = [measured_module._Change(0, 0, (measured_module._STEP_DONE,))]
    monkeypatch.setattr(measured_module, "_on_gpu", lambda step: ("a GPU", empty, 512))
    peak = memory.measure_peak(lambda: torch.ones(1000).sin())
    assert (peak.device, peak.peak_nbytes, peak.allocated_nbytes) == ("CPU", 8000, None)


def test_a_step_in_place_takes_no_memory_and_a_measurement_that_saw_nothing_is_an_error(monkeypatch):
    x = torch.ones(3, requires_grad=True)
    with torch.no_grad():
        assert memory.measure_peak(x.zero_).peak_nbytes == 0
    done = [measured_module._Change(0, 0, (measured_module._STEP_DONE,))]
    monkeypatch.setattr(measured_module, "_on_cpu", lambda step: ("CPU", done, None))
    with pytest.raises(RuntimeError, match=r"lambda>: no allocation was seen.*Measure again"):
        memory.measure_step(lambda: x.sum())
    monkeypatch.setattr(measured_module, "_on_cpu", lambda step: ("CPU", [], None))
    with pytest.raises(RuntimeError, match="the profiler saw nothing of the step, not even its end"):
        memory.measure_peak(lambda: torch.ones(3))


# What cannot be done


def test_a_broken_function_is_refused():
    w = torch.randn(4, requires_grad=True)

    def broken(w):
        y = w.sin()
        torch._dynamo.graph_break()
        return y.cos().sum()

    with pytest.raises(ValueError, match="2 graphs"):
        memory.lifetimes(aot.training_graphs(broken, w))
    forward = SimpleNamespace(direction="forward")
    with pytest.raises(ValueError, match="1 graphs"):
        memory.lifetimes(inductor.GeneratedCode((forward,), None, None))
    with pytest.raises(ValueError, match="ran out of disk"):
        memory.lifetimes(inductor.GeneratedCode((forward,), None, None, trouble=("OSError: ran out of disk",)))


# Size


def chain(nodes):
    model = torch.fx.GraphModule({}, torch.fx.Graph())
    with memory.fake_tensors():
        value = torch.empty(8)
    at = first = model.graph.placeholder("primals_1")
    first.meta["val"] = value
    for number in range(nodes):
        at = model.graph.call_function(torch.ops.aten.sin.default if number % 2 else torch.ops.aten.view.default, (at,))
        at.args = (at.args[0],) if number % 2 else (at.args[0], [8])
        at.meta["val"] = value
    model.graph.output((at,))
    nothing = torch.fx.GraphModule({}, torch.fx.Graph())
    nothing.graph.output(())
    halves = {
        name: graph_of(name, each, {}, set(), set())
        for name, each in zip(("forward", "backward"), (model, nothing), strict=True)
    }
    return SimpleNamespace(**halves, others=(), parameters=frozenset(), outputs=1)


def test_twice_the_nodes_are_twice_the_work():
    few, many = (lines_run(lambda given=given: graph_lifetimes(given)) for given in map(chain, (500, 1000)))
    assert few < many < 2.2 * few
    found = graph_lifetimes(chain(20_000))
    assert len(found.timeline) == 10_000 and found.peak_nbytes == 64
