"""A function in the place of a model: one that returns a loss, and one that is a whole step of its own."""

import copy
import textwrap

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from compile_lab.inductor.generated import generated_code
from compile_lab.memory import eager_lifetimes, measure_peak
from compile_lab.report.captured import ReportOptions, captured
from compile_lab.report.given import given, loaded
from compile_lab.report.model import card
from compile_lab.tensors import nbytes

GRAPHS = ("trace", "state", "graphs", "memory", "eager")


class Adversaries:
    """A generator and a discriminator that are trained in turn, each by an optimizer of its own."""

    def __init__(self):
        self.maker = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 32))
        self.judge = nn.Sequential(nn.Linear(32, 128), nn.LeakyReLU(), nn.Linear(128, 1))
        self.of_maker = torch.optim.Adam(self.maker.parameters())
        self.of_judge = torch.optim.SGD(self.judge.parameters(), momentum=0.9)

    def step(self, real):
        noise = torch.randn(len(real), 8)
        self.of_judge.zero_grad()
        (F.softplus(self.judge(self.maker(noise).detach())).mean() + F.softplus(-self.judge(real)).mean()).backward()
        self.of_judge.step()
        self.of_maker.zero_grad()
        F.softplus(-self.judge(self.maker(noise))).mean().backward()
        self.of_maker.step()


class Averaged:
    """A student, and a teacher that is its moving average and is never differentiated."""

    def __init__(self):
        self.student = nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 16))
        self.teacher = copy.deepcopy(self.student).requires_grad_(False)
        self.optimizer = torch.optim.AdamW(self.student.parameters())

    def step(self, x):
        with torch.no_grad():
            aim = self.teacher(x)
        F.mse_loss(self.student(x), aim).backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        with torch.no_grad():
            for slow, fast in zip(self.teacher.parameters(), self.student.parameters(), strict=True):
                slow.lerp_(fast, 0.01)


def in_two_halves():
    """Gradients of two halves of a batch are added up before the optimizer steps."""
    net = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def step(x):
        optimizer.zero_grad()
        for half in x.chunk(2):
            net(half).square().mean().backward()
        optimizer.step()

    return step, net


def test_a_step_is_told_as_it_runs_and_the_graphs_as_a_part_of_it():
    pair = Adversaries()
    subject = given(pair.step, torch.randn(16, 32))
    seen = {each.name: (each.times, each.without_gradient) for each in subject.step.calls}
    assert seen == {"judge": (3, 0), "maker": (2, 0)} and subject.step.backwards == 2
    assert subject.model is pair.judge and subject.optimizer is pair.of_judge
    found = captured(subject, ReportOptions(limit_s=600), only=GRAPHS)
    cards = {name: card(name, found) for name in ("step", "breaks", "joint", "saved", "memory")}
    assert "runs 2 backwards and steps SGD, Adam" in cards["step"].verdict
    for name in ("breaks", "joint", "saved"):
        assert cards[name].severity == "look"
        assert "part of the step: one call of `judge` and a backward of its own, 22 % of the" in cards[name].verdict
    assert "The peak of the step as eager runs it" in cards["memory"].verdict


@pytest.mark.parametrize("make", [lambda: Adversaries().step, lambda: Averaged().step, lambda: in_two_halves()[0]])
def test_the_peak_of_a_step_is_the_allocators(make):
    step = make()
    x = torch.randn(16, 32 if "Adv" in step.__qualname__ else 16)
    subject = given(step, x)
    step(x)
    modules = subject.step.modules

    def forget():
        modules.zero_grad(set_to_none=True)

    looped = captured(subject, ReportOptions(limit_s=600), only=("eager",)).eager.memory
    forget()
    measured = measure_peak(lambda: step(x), forget).peak_nbytes
    forget()
    cleared = eager_lifetimes(subject.step.run, modules, *subject.step.optimizers)
    assert cleared.peak_nbytes == pytest.approx(measured, rel=0.01)
    # In a loop the last step's gradients are there when a step begins, and some of them at its peak.
    gradients = nbytes([each for each in modules.parameters() if each.requires_grad])
    more = looped.resident_nbytes + looped.peak_nbytes - cleared.resident_nbytes - cleared.peak_nbytes
    assert 0 <= more <= gradients


def test_modules_that_no_name_of_the_function_leads_to_are_found_as_they_are_called():
    class Holder:
        __slots__ = ("calls",)

    layers, holder = [nn.Linear(4, 4), nn.Linear(4, 1)], Holder()
    holder.calls = [lambda h, each=each: each(h) for each in layers]

    def step(x):
        for call in holder.calls:
            x = call(x)
        x.sum().backward()

    before = [each.weight.clone() for each in layers]
    subject = given(step, torch.ones(2, 4))
    assert len(subject.step.calls) == 2 and set(layers) <= set(subject.step.modules.modules())
    assert all(torch.equal(each.weight, old) for each, old in zip(layers, before, strict=True))


def test_a_function_that_returns_a_loss_is_a_model():
    net = nn.Linear(4, 2)

    def loss(x, y):
        return F.cross_entropy(net(x), y)

    subject = given(torch.compile(loss), (torch.ones(3, 4), torch.tensor([0, 1, 1])))
    assert subject.step is None and subject.was_compiled
    assert [name for name, _ in subject.model.named_parameters()] == ["net.weight", "net.bias"]
    assert card("breaks", captured(subject, ReportOptions(limit_s=600), only=("trace",))).severity == "good"


def test_a_function_of_a_file_travels_with_what_it_names(tmp_path):
    """Dynamo imports the module of an inlined function: it must be the one that travelled, not the file once more."""
    file = tmp_path / "trains_on_import.py"
    file.write_text(
        textwrap.dedent("""
        import pathlib, torch
        from torch import nn
        pathlib.Path(__file__).with_suffix(".log").open("a").write("run\\n")
        net = nn.Linear(8, 8)
        def loss(x):
            return net(x).square().mean()
        def subject():
            return loss, torch.ones(4, 8)
        """)
    )
    subject = loaded(f"{file}:subject")
    assert subject.name == "loss of trains_on_import.py"
    code = generated_code(subject.loss, *subject.args, chip="H200")
    assert not code.trouble and len(code.graphs) == 2
    assert file.with_suffix(".log").read_text() == "run\n"
