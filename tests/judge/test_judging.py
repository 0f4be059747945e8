"""The judge lets rounding pass, names what is wrong, and refuses what hangs on a last bit."""

import copy
import math
import random
from dataclasses import dataclass

import numpy
import pytest
import torch
import torch.nn.functional as F
from modulated import Modulated
from spoilt import negated
from torch import nn

from compile_lab._torch.inductor import inductor_config
from compile_lab.judge import climbed, gradients, stage_at_fault
from compile_lab.judge.__main__ import main
from compile_lab.judge.judging import subject_of, units_of

pytestmark = pytest.mark.processes

RELEASE = tuple(int(each) for each in torch.__version__.split("+")[0].split(".")[:2])


def drawn(*shape, grad=False, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).requires_grad_(grad)


class Small(nn.Module):
    """Two layers of one shape, so that their gradients can be exchanged."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x):
        return self.second(torch.tanh(self.first(x)))


def verdicts(*args, **kwargs):
    return {each.backend: each for each in gradients(*args, **kwargs).verdicts}


# ---- what is right


class Normal(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.3))

    def forward(self, image):
        return self.layers(image)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "batch"),
    [
        (Small(), drawn(4, 8, grad=True)),
        (Normal(), {"image": drawn(2, 3, 8, 8)}),
        (lambda x: F.layer_norm(x, (64,)).sum(0), drawn(32, 64, grad=True)),
        (lambda a: torch.cat([a, -a.flip(0)]).sum(0), drawn(512, 16, grad=True)),  # nothing but rounding is left
        (lambda x: x * torch.linspace(0, 1, 8, dtype=torch.float32) + 1 / 3, drawn(4, 8, grad=True)),
        (Small().bfloat16(), drawn(4, 8).bfloat16()),
    ],
    ids=["layers", "statistics and dropout", "sum of a norm", "a sum that cancels", "float32 by name", "bf16"],
)
def test_rounding_is_not_wrong(model, batch):
    found = gradients(model, batch)
    assert found.wrong == () and not found.refused, found
    assert not any(each.raised for each in found.verdicts)
    assert all(each.units and max(each.units.values()) < 32 for each in found.verdicts)


def masked_by_numpy(x, chosen):
    keep = torch.from_numpy(numpy.random.rand(8) < 0.5)
    return torch.where(keep & chosen, x * random.random(), 0.0)


@pytest.mark.slow
def test_the_same_random_numbers_are_drawn_each_time_and_afterwards_those_that_would_have_been():
    random.seed(1), numpy.random.seed(1)
    expected = random.random(), numpy.random.rand()
    random.seed(1), numpy.random.seed(1)
    subject = subject_of(masked_by_numpy, (drawn(4, 8, grad=True), torch.arange(8) > 2), None, 0)
    first, second = (subject.seen(lambda model: model) for _ in range(2))
    assert all(torch.equal(first[name], second[name]) for name in first if torch.is_tensor(first[name]))
    assert (random.random(), numpy.random.rand()) == expected
    assert units_of(subject)[1] == {}
    found = gradients(masked_by_numpy, (drawn(4, 8, grad=True), torch.arange(8) > 2))
    assert found.wrong == () and not found.refused, found


def test_a_mask_of_bools_is_judged():
    found = gradients(lambda x, mask: torch.where(mask, x, 0.0), (drawn(8, grad=True), torch.arange(8) > 2))
    assert found.wrong == () and {"output", "args[1] afterwards"} <= found.verdicts[1].units.keys()


def test_a_sum_of_many_numbers_of_one_sign_may_be_off_by_what_adding_them_in_turn_rounds():
    def moved_by(model, x):
        units, _ = units_of(subject_of(model, x, None, 0))
        return float((units["output"].noise / units["output"].exact.abs()).mean())

    in_turn = numpy.add.accumulate(numpy.full(2**16, 0.1, numpy.float32))[-1]
    error = abs(float(in_turn) / (2**16 * float(numpy.float32(0.1))) - 1)
    assert error / moved_by(lambda x: x.sum(), torch.full((2**16,), 0.1)) < 64
    assert moved_by(lambda x: x.sum(0), torch.full((4, 64), 0.1)) < 4e-7  # and no more where they are few


@pytest.mark.slow
def test_the_model_and_the_batch_stay_as_they_are():
    model, x = Normal(), drawn(2, 3, 8, 8)
    before = {name: each.clone() for name, each in model.state_dict().items()}
    drew = torch.random.get_rng_state()
    gradients(model, x)
    assert all(torch.equal(each, before[name]) for name, each in model.state_dict().items())
    assert all(each.grad is None for each in model.parameters())
    assert torch.equal(torch.random.get_rng_state(), drew)


# ---- what is wrong: passes over the backward's graph that somebody could have written


def _made(graph, op, *args):
    return graph.call_function(op, args)


aten = torch.ops.aten
PASSES = {
    "scaled": lambda graph, g: _made(graph, aten.mul.Tensor, g, 1.001),
    "negated": lambda graph, g: _made(graph, aten.neg.default, g),
    "dropped": lambda graph, g: _made(graph, aten.mul.Tensor, g, 0.0),
    "doubled": lambda graph, g: _made(graph, aten.add.Tensor, g, g),
    "shifted": lambda graph, g: _made(graph, aten.add.Tensor, g, 1e-3),
    "rounded to eighths": lambda graph, g: _made(
        graph, aten.div.Tensor, _made(graph, aten.round.default, _made(graph, aten.mul.Tensor, g, 8.0)), 8.0
    ),
    "no number": lambda graph, g: _made(graph, aten.add.Tensor, g, math.nan),
    "its size": lambda graph, g: _made(graph, aten.abs.default, g),
    "one half of it": lambda graph, g: _made(graph, aten.relu.default, g),
    "squashed": lambda graph, g: _made(graph, aten.tanh.default, g),
    "transposed": lambda graph, g: _made(graph, aten.permute.default, g, [1, 0]),
    "one row left out": lambda graph, g: _made(
        graph, aten.constant_pad_nd.default, _made(graph, aten.slice.Tensor, g, 0, 1, 8), [0, 0, 1, 0], 0.0
    ),
    "squared": lambda graph, g: _made(graph, aten.mul.Tensor, g, g),
}


def planted(change):
    """A pass of Inductor's that changes the gradient of the first layer's weight."""

    def run(graph):
        if not any(node.op == "placeholder" and "tangents" in node.name for node in graph.nodes):
            return
        output = next(node for node in graph.nodes if node.op == "output")
        results = list(output.args[0])
        at = next(k for k, each in enumerate(results) if each is not None and each.meta["val"].shape == (8, 8))
        with graph.inserting_before(output):
            made = change(graph, results[at])
        results[at] = made
        output.args = (tuple(results),)

    return run


@pytest.mark.slow
@pytest.mark.parametrize("name", PASSES)
def test_a_wrong_pass_is_found_in_the_gradient_that_it_changes(name):
    with inductor_config.patch(post_grad_custom_pre_pass=planted(PASSES[name])):
        found = verdicts(Small(), drawn(4, 8))
    assert found["aot_eager"].wrong == ()
    assert found["inductor"].wrong == ("gradient of first.weight", "gradient of first.weight (second call)")


# ---- what torch 2.13 has wrong (rebuilt after public reports; mended in 2.14.1)


def dropped_write(x):  # pytorch#195422
    y = F.dropout(x, 0.5, False)
    y += y
    return y


KNOWN = {
    "pytorch#195422": (dropped_write, drawn(4, 4), "aot_eager", "args[0] afterwards"),
    "pytorch#186281": (lambda x: x * 0, torch.tensor([1.0, math.nan]), "inductor", "output"),
    "pytorch#183986": (
        lambda source, at: torch.zeros(1, 8).expand(4, -1).index_add(0, at, source),
        (torch.ones(3, 8), torch.tensor([0, 1, 0])),
        "inductor",
        "output",
    ),
}


@pytest.mark.skipif(RELEASE != (2, 13), reason="2.14.1 has mended them")
@pytest.mark.parametrize("name", KNOWN)
def test_a_known_fault_is_found(name):
    program, batch, backend, result = KNOWN[name]
    assert result in verdicts(program, batch)[backend].wrong


class Shadowed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(2, 2, bias=False)

    def forward(self, x):
        return self.inner(x)


def shadow(model):
    other = nn.Linear(2, 2, bias=False)
    nn.init.constant_(other.weight, 5.0)
    object.__setattr__(model, "inner", other.to(model._modules["inner"].weight.dtype))


@pytest.mark.skipif(RELEASE != (2, 13), reason="tried on 2.13")
def test_a_fault_of_the_second_call_needs_the_change_between():  # pytorch#197859
    assert gradients(Shadowed(), torch.ones(2)).wrong == ()
    assert "output (second call)" in gradients(Shadowed(), torch.ones(2), change=shadow).wrong


class Schedule:
    warm, cold = object(), object()


class Scheduled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.now = Schedule.warm

    def forward(self, x):
        return 2 * x if self.now is Schedule.warm else 3 * x


def cool_down(model):
    model.now = Schedule.cold


def test_a_copy_is_the_same_program_where_code_compares_with_an_object_that_is_not_copied():  # pytorch#196173
    subject = subject_of(Scheduled(), torch.ones(2), cool_down, 0)
    seen = subject.seen(lambda model: model)
    assert seen["output"].tolist() == [2, 2] and seen["output (second call)"].tolist() == [3, 3]
    assert copy.deepcopy(Schedule.warm) is not Schedule.warm  # elsewhere copies are what they were
    wrong = gradients(Scheduled(), torch.ones(2), change=cool_down).wrong
    assert wrong == (("output (second call)",) if RELEASE == (2, 13) else wrong)


class Doubled(nn.Module):
    def by(self, x):
        return 2 * x

    def forward(self, x):
        return self.by(x)


def tripled_for_a_while(model):
    kept = Doubled.by.__code__
    Doubled.by.__code__ = (lambda self, x: 3 * x).__code__
    yield
    Doubled.by.__code__ = kept


@pytest.mark.skipif(RELEASE != (2, 13), reason="tried on 2.13")
def test_a_change_of_a_class_is_undone_for_the_next_backend():  # pytorch#197860
    found = gradients(Doubled(), torch.ones(2), change=tripled_for_a_while)
    assert [each.wrong for each in found.verdicts] == [("output (second call)",)] * 2 and not found.refused
    assert Doubled()(torch.ones(1)).item() == 2


@pytest.mark.slow
@pytest.mark.skipif(RELEASE not in ((2, 11), (2, 12), (2, 13), (2, 14)), reason="2.15 writes it")
def test_memory_that_no_kernel_writes_is_found_for_a_chip_with_its_switch():  # pytorch#193061
    from compile_lab.judge.judging import _for_chip

    found = _for_chip("H200", subject_of(Modulated(768), drawn(1, 8192, 768, grad=True), None, 0), {})
    [wrong] = found.wrong
    assert wrong.startswith("gradient of table") and "nothing writes" in wrong
    assert "triton.mix_order_reduction = False" in found.cure


@pytest.mark.slow
@pytest.mark.skipif(RELEASE not in ((2, 11), (2, 12), (2, 13), (2, 14)), reason="2.15 writes it")
def test_memory_that_is_written_in_part_is_found_by_its_numbers_with_the_same_switch():  # pytorch#193061
    from compile_lab.judge.judging import _for_chip

    model, x = Modulated(768), drawn(1, 8192, 768)  # x needs no gradient: one of the two norms' rows is written
    subject = subject_of(model, x, None, 0)
    found = _for_chip("H200", subject, units_of(subject)[0])
    assert found.wrong == ("gradient of table",) and "triton.mix_order_reduction = False" in found.cure


@pytest.mark.slow
def test_kernels_for_a_chip_are_interpreted():
    model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32))
    found = verdicts(model, drawn(8, 16, grad=True), chip="H200")["inductor for a virtual H200"]
    assert found.raised == "" and found.wrong == ()
    assert {"output", "gradient of 0.weight", "gradient of 2.bias", "gradient of args[0]"} <= found.units.keys()
    assert 0 < max(found.units.values()) < 32


# ---- what is refused


def test_a_result_that_hangs_on_a_last_bit_is_refused():
    edges = torch.tensor([0.0, 0.1, 0.2, 0.3])

    def bucket(x, table):
        return table[torch.bucketize((x * 3) / 3, edges)]

    x = torch.tensor([0.1, 0.2, 0.3] * 50)
    found = gradients(bucket, (x, drawn(5, 4, grad=True)))
    assert "output" in found.refused and "last bit" in found.refused["output"] and found.wrong == ()


def test_a_chip_that_is_not_known_is_refused_at_the_door():
    with pytest.raises(ValueError, match="no virtual chip is called 'h100'; there is H200"):
        gradients(nn.Linear(8, 8), drawn(4, 8), chip="h100")


class Recurrent(nn.Module):
    """Dynamo leaves it to Python, whole."""

    def __init__(self) -> None:
        super().__init__()
        self.cells = nn.LSTM(4, 4)

    def forward(self, x):
        return self.cells(x)[0]


def test_a_backend_whose_code_did_not_run_is_refused_and_not_right():
    found = gradients(Recurrent(), drawn(3, 2, 4))
    assert set(found.refused) == {"aot_eager", "inductor"} and found.verdicts == ()
    assert "No compiled graph ran" in found.refused["inductor"]


def written_into(x):
    x.add_(1)
    return x * 2


@pytest.mark.slow
def test_a_batch_that_is_written_into_stays_as_it_is():
    x = drawn(4, 8)
    before = x.clone()
    assert gradients(written_into, x, chip="H200").wrong == () and torch.equal(x, before)


def test_a_change_is_made_to_a_copy_of_a_compiled_model_too():
    model = Small()
    gradients(torch.compile(model), drawn(2, 8), change=lambda copied: copied.first.weight.data.zero_())
    assert model.first.weight.abs().sum() > 0


@dataclass
class Answer:
    logits: torch.Tensor
    count: int


def test_results_of_a_class_are_looked_into():
    names = verdicts(lambda x: Answer(x * 2, 3), drawn(2, 2, grad=True))["inductor"].units.keys()
    assert {"output['logits']", "output['count']", "gradient of args[0]"} <= names


# ---- the command


def test_the_command_has_a_status(tmp_path, capsys):
    file = tmp_path / "mine.py"
    file.write_text("import torch\n\ndef made():\n    return torch.nn.Linear(4, 2), torch.ones(3, 4)\n")
    assert main([f"{file}:made"]) == 0 and "inductor: right" in capsys.readouterr().out
    assert main([f"{file}:other"]) == 2 and "has no function 'other'" in capsys.readouterr().err
    with inductor_config.patch(post_grad_custom_pre_pass=negated):
        assert main([f"{file}:made"]) == 1 and "WRONG in gradient of weight" in capsys.readouterr().out


def test_the_command_names_the_stage_where_something_is_wrong(tmp_path, capsys):
    file = tmp_path / "staged.py"
    file.write_text("import torch\n\ndef made():\n    return torch.nn.Linear(4, 2), torch.ones(3, 4)\n")
    assert main([f"{file}:made", "--stage"]) == 0 and "first wrong" not in capsys.readouterr().out
    with inductor_config.patch(post_grad_custom_pre_pass=negated):
        assert main([f"{file}:made", "--stage"]) == 1
    assert "first wrong: inductor, so Inductor" in capsys.readouterr().out


CLASS_OF_ITS_OWN = """
import torch
class Own(torch.nn.Linear):
    pass
def made():
    return Own(4, 2), torch.ones(3, 4)
def change(model):
    assert isinstance(model, Own)
"""


def test_the_command_changes_the_model_by_a_function_of_the_file_that_made_it(tmp_path):
    file = tmp_path / "with_a_class.py"
    file.write_text(CLASS_OF_ITS_OWN)
    assert main([f"{file}:made", "--change", "change"]) == 0
    assert main([f"{file}:made", "--change", "none"]) == 2


MINE = """
import torch
net = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
def scaled(x):
    return x * 2
def plain():
    return scaled, torch.ones(3)
def loss(x):
    return net(x).square().sum()
def closed():
    return loss, torch.ones(2, 4)
def step(x):
    optimizer.zero_grad()
    found = loss(x)
    found.backward()
    optimizer.step()
    return found
def whole():
    return step, torch.ones(2, 4)
def refused():
    return net, torch.ones(2, 5)
"""


def test_the_command_takes_functions_and_whole_steps_and_an_error_is_no_wrong_result(tmp_path, capsys):
    file = tmp_path / "own_functions.py"
    file.write_text(MINE)
    assert main([f"{file}:plain"]) == 0
    assert main([f"{file}:refused"]) == 2 and "must run in eager mode first" in capsys.readouterr().err
    with inductor_config.patch(post_grad_custom_pre_pass=negated):
        assert main([f"{file}:closed"]) == 1 and "gradient of net.weight" in capsys.readouterr().out
        assert main([f"{file}:whole"]) == 1 and "net.weight afterwards" in capsys.readouterr().out


def test_what_rounds_nothing_does_not_move_and_complex_numbers_do():
    least = verdicts(lambda x: x.amin(-1), drawn(3, 4, grad=True))["inductor"]
    assert "gradient of args[0]" in least.units and not least.wrong
    found = gradients(lambda x, w: torch.fft.irfft(torch.fft.rfft(x) * w).real, (drawn(3, 8), torch.ones(5) * (1 + 1j)))
    assert not found.wrong and not found.refused


def test_the_second_call_has_a_batch_of_its_own_whose_memory_is_shared_as_it_was():
    memory = torch.ones(5)
    found = gradients(lambda x, y: x.mul_(3) + y, (torch.ones(3), torch.ones(3)), again=(memory[:3], memory[1:4]))
    assert bool(found.wrong) == (RELEASE == (2, 13))  # pytorch#139789
    if found.wrong:
        stage = stage_at_fault(
            lambda x, y: x.mul_(3) + y, (torch.ones(3), torch.ones(3)), again=(memory[:3], memory[1:4])
        )
        assert stage.outcomes["eager"] == "right" and stage.backend == "aot_eager"


def test_a_step_that_is_right_has_no_stage_at_fault():
    found = stage_at_fault(lambda x: x.sin() + 1, torch.ones(3))
    assert not found.backend and set(found.outcomes.values()) == {"right"} and str(found) == "right by every backend"


def test_a_stage_with_no_subsystem_is_told_by_its_backend():
    outcomes = {"eager": "wrong", "aot_eager": "wrong", "aot_eager_decomp_partition": "wrong", "inductor": "wrong"}
    found = climbed(outcomes.__getitem__)
    assert (found.backend, found.subsystem) == ("eager", "") and "Dynamo" in str(found)


def test_a_backend_that_raises_is_not_bisected():
    asked = []

    def outcome(backend):
        asked.append(backend)
        return "raises RuntimeError" if backend == "inductor" else "right"

    found = climbed(outcome)
    assert found.backend == "inductor" and not found.subsystem and len(asked) == 4
