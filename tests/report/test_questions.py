"""Each question finds its trouble where it is, and does not where it is not."""

import dataclasses

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from compile_lab.report.captured import ReportOptions, captured
from compile_lab.report.given import given
from compile_lab.report.questions import QUESTIONS, answers

pytestmark = pytest.mark.processes


class Small(nn.Module):
    """Two layers; `between` is what happens to the values between them."""

    def __init__(self, between=F.relu, width=4):
        super().__init__()
        self.one, self.two, self.between = nn.Linear(4, 4), nn.Linear(4, width), between

    def forward(self, x):
        return self.two(self.between(self.one(x)))


def branches(h):
    return h * 2 if h.sum() > 0 else h


def takes_rows(x):
    return x[x[:, 0] > 0] * 2


def reads_a_number(h):
    return h * h.sum().item()


def attends(h):
    return F.softmax(h @ h.T, -1).unsqueeze(0).softmax(-1)[0] @ h


def in_float64(h):
    return (h.double() * 2).float()


class Unused(Small):
    def __init__(self):
        super().__init__()
        self.third = nn.Linear(4, 4)


class Tied(Small):
    """One matrix under two names: no parameter is unused."""

    def __init__(self):
        super().__init__()
        self.two.weight = self.one.weight


def differentiated_twice(h):
    """As in a physics-informed network: a gradient inside the forward, which the loss differentiates again."""
    point = h.detach().requires_grad_()
    (slope,) = torch.autograd.grad((point * h).tanh().sum(), point, create_graph=True)
    return slope


def of_the_cpu(h):
    return h * torch.arange(4)


def turns(count):
    def loop(h):
        state = torch.zeros_like(h)
        for _ in range(count):
            state = torch.tanh(state * 0.9 + h)
        return state

    return loop


def asked(name, model, parts, optimizer=None, batch=None):
    """The answer of one question, from as few parts as it needs."""
    subject = given(model, torch.ones(5, 4) if batch is None else batch, optimizer)
    return QUESTIONS[name](captured(subject, ReportOptions(limit_s=600), only=parts))


def adam_at(rate):
    model = Small()
    return {"model": model, "optimizer": torch.optim.AdamW(model.parameters(), lr=rate)}


def of_sixteen_bits():
    return {"model": Small().bfloat16(), "batch": torch.ones(5, 4).bfloat16()}


TRACE, TRIES = ("trace",), ("tries",)
CASES = {
    "compiled_step_raises": (Small(differentiated_twice), ("trace", "graphs", "code", "compiled")),
    "made_on_the_cpu": (Small(of_the_cpu), ("trace", "casts")),
    "unrolled_loop": (Small(turns(20)), TRACE),
    "wrapped_names": (torch.compile(Small()), ()),
    "branch_on_a_value": (Small(branches), TRACE),
    "number_out_of_a_tensor": (Small(reads_a_number), TRACE),
    "size_that_hangs_on_values": (Small(takes_rows), TRACE),
    "last_batch": (Small(), TRIES),
    "unused_parameters": (Unused(), ()),
    "attention_written_out": (Small(attends), TRACE),
    "double_precision": (Small(in_float64), ("graphs",)),
    "eval_mode": (Small().eval(), ()),
    "odd_sizes": (Small(width=1025), ()),
}
"""What the notebook of chapter 24 finds in a GPT-2 is not here."""
SLOW = {"compiled_step_raises"}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in CASES]
)
def test_a_question_fires_where_its_trouble_is(name):
    troubled, parts = CASES[name]
    found = asked(name, troubled, parts)
    assert found and found.name == name and found.title and found.told and found.cure


NEARLY = {
    "made_on_the_cpu": (Small(lambda h: h * torch.arange(4, device=h.device)), ("trace", "casts")),
    "unrolled_loop": (Small(turns(3)), TRACE),
    "unused_parameters": (Tied(), ()),
    "odd_sizes": (Small(width=1024), ()),
    "every_length": (Small(), TRIES),  # rows of numbers have no length
}


@pytest.mark.parametrize("name", NEARLY)
def test_a_question_does_not_fire_at_what_only_looks_like_its_trouble(name):
    assert asked(name, *NEARLY[name]) is None


def test_of_a_sound_model_nothing_is_found():
    parts = ("trace", "momentum", "graphs", "compiled", "memory")
    findings, unasked = answers(captured(given(Small(), torch.ones(5, 4)), ReportOptions(limit_s=600), only=parts))
    assert findings == () and {each.partition(":")[0] for each in unasked} == {"last_batch", "every_length"}


@pytest.mark.parametrize(
    ("name", "parts", "make", "fires"),
    [  # made in the test: a virtual GPU imports this module, and there a model that is made or moved gets in its way
        ("learning_rate", ("rates",), lambda: adam_at(1e-3), True),
        ("learning_rate", ("rates",), lambda: adam_at(torch.tensor(1e-3)), False),
        ("last_batch", TRIES, lambda: {"model": Small(), "batch": torch.ones(1, 4)}, False),  # there is no smaller one
        ("low_precision_weights", (), of_sixteen_bits, True),
    ],
)
def test_what_hangs_on_the_batch_or_the_optimizer_fires_where_it_is(name, parts, make, fires):
    assert bool(asked(name, parts=parts, **make())) == fires


def test_a_question_whose_part_failed_is_not_asked_and_says_so():
    found = captured(given(Small(), torch.ones(5, 4)), ReportOptions(limit_s=600), only=())
    broken = dataclasses.replace(found, parts={"trace": RuntimeError("no trace today")})
    findings, unasked = answers(broken)
    assert not findings
    assert "layer_index: RuntimeError: no trace today" in unasked
    assert any(each.startswith("double_precision: it was not requested") for each in unasked)
