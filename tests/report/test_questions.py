"""Each question finds its trouble where it is, and does not where it is not."""

import dataclasses
import logging
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper

from compile_lab.report.captured import ReportOptions, captured
from compile_lab.report.given import given
from compile_lab.report.questions import QUESTIONS, answers

pytestmark = pytest.mark.processes

LOG = logging.getLogger(__name__)


class Small(nn.Module):
    """Two layers; `between` is what happens to the values between them."""

    def __init__(self, between=F.relu, width=4):
        super().__init__()
        self.one, self.two, self.between = nn.Linear(4, 4), nn.Linear(4, width), between

    def forward(self, x):
        return self.two(self.between(self.one(x)))


class Numbered(nn.Module):
    """Blocks that read a number of their own."""

    class Block(nn.Module):
        def __init__(self, at, read):
            super().__init__()
            self.linear, self.layer_idx, self.read = nn.Linear(4, 4), at, read

        def forward(self, x):
            return self.linear(x) * (self.layer_idx + 1 if self.read else 1)

    def __init__(self, read):
        super().__init__()
        self.blocks = nn.ModuleList(self.Block(at, read) for at in range(3))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


def logs(h):
    LOG.warning("a message")
    return h


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


class Caching(Small):
    """Its result is a transformers model's: an object with a loss and, with `use_cache`, keys and values."""

    def __init__(self, use_cache):
        super().__init__()
        self.use_cache = use_cache

    def forward(self, x):
        y = super().forward(x)
        return SimpleNamespace(loss=y.mean(), past_key_values=[y] if self.use_cache else None)


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


def compiled(model):
    return torch.compile(model)


class Checkpointed(Small):
    """A checkpoint around what is compiled, or compiled around a checkpoint."""

    def __init__(self, outside):
        super().__init__()
        self.one = checkpoint_wrapper(compiled(self.one)) if outside else compiled(checkpoint_wrapper(self.one))


TRACE, TRIES = ("trace",), ("tries",)
CASES = {
    "compiled_step_raises": (Small(differentiated_twice), Small(), ("trace", "graphs", "code", "compiled")),
    "made_on_the_cpu": (Small(of_the_cpu), Small(lambda h: h * torch.arange(4, device=h.device)), ("trace", "casts")),
    "unrolled_loop": (Small(turns(20)), Small(turns(3)), TRACE),
    "layer_index": (Numbered(True), Numbered(False), TRACE),
    "wrapping_order": (Checkpointed(True), Checkpointed(False), ()),
    "wrapped_names": (compiled(Small()), Small(), ()),
    "cache_in_training": (Caching(True), Caching(False), ()),
    "logging_in_forward": (Small(logs), Small(), TRACE),
    "branch_on_a_value": (Small(branches), Small(), TRACE),
    "number_out_of_a_tensor": (Small(reads_a_number), Small(), TRACE),
    "size_that_hangs_on_values": (Small(takes_rows), Small(), TRACE),
    "last_batch": (Small(), None, TRIES),
    "unused_parameters": (Unused(), Tied(), ()),
    "attention_written_out": (Small(attends), Small(), TRACE),
    "double_precision": (Small(in_float64), Small(), ("graphs",)),
    "eval_mode": (Small().eval(), Small(), ()),
    "odd_sizes": (Small(width=1025), Small(width=1024), ()),
    "logits_at_the_peak": (Small(width=4096), Small(), ("graphs", "memory")),
}


SLOW = {"compiled_step_raises"}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in CASES]
)
def test_a_question_fires_where_its_trouble_is_and_not_elsewhere(name):
    troubled, sound, parts = CASES[name]
    found = asked(name, troubled, parts)
    assert found and found.name == name and found.title and found.told and found.cure
    if sound is not None:
        assert asked(name, sound, parts) is None


def test_blocks_with_numbers_of_their_own_compile_one_by_one():
    def compilations(read):
        torch.compiler.reset()
        made = []

        def backend(module, inputs):
            made.append(module)
            return module.forward

        for block in Numbered(read).blocks:
            torch.compile(block, backend=backend)(torch.ones(5, 4))
        return len(made)

    assert compilations(read=True) == 3 and compilations(read=False) == 1


class Steps(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        return self.linear(x).mean()


def adam_at(rate):
    model = Small()
    return {"model": model, "optimizer": torch.optim.AdamW(model.parameters(), lr=rate)}


def of_sixteen_bits():
    return {"model": Small().bfloat16(), "batch": torch.ones(5, 4).bfloat16()}


@pytest.mark.parametrize(
    ("name", "parts", "make", "fires"),
    [  # made in the test: a virtual GPU imports this module, and there a model that is made or moved gets in its way
        ("learning_rate", ("rates",), lambda: adam_at(1e-3), True),
        ("learning_rate", ("rates",), lambda: adam_at(torch.tensor(1e-3)), False),
        ("learning_rate", ("rates",), lambda: {"model": Small()}, False),  # none was handed over
        ("last_batch", TRIES, lambda: {"model": Small(), "batch": torch.ones(1, 4)}, False),  # there is no smaller one
        ("every_length", TRIES, lambda: {"model": Steps(), "batch": torch.ones(2, 6, 4)}, True),
        ("every_length", TRIES, lambda: {"model": Small()}, False),  # rows of numbers have no length
        ("low_precision_weights", (), of_sixteen_bits, True),
        ("low_precision_weights", (), lambda: {"model": Small()}, False),
    ],
)
def test_what_hangs_on_the_batch_or_the_optimizer_fires_where_it_is(name, parts, make, fires):
    assert bool(asked(name, parts=parts, **make())) == fires


def test_each_question_has_a_test():
    elsewhere = {"learning_rate", "momentum_that_cycles", "every_length", "low_precision_weights"}
    elsewhere |= {"parts_at_their_limit", "parts_left_eager"}  # test_handed.py
    assert set(QUESTIONS) == CASES.keys() | elsewhere


def test_a_question_whose_part_failed_is_not_asked_and_says_so():
    found = captured(given(Small(), torch.ones(5, 4)), ReportOptions(limit_s=600), only=())
    broken = dataclasses.replace(found, parts={"trace": RuntimeError("no trace today")})
    findings, unasked = answers(broken)
    assert not findings
    assert "layer_index: RuntimeError: no trace today" in unasked
    assert any(each.startswith("double_precision: it was not requested") for each in unasked)
