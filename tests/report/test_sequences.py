"""Context parallel of models unlike each other: which calls exchange what, and what a device then holds."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.functional import scaled_dot_product_attention as by_its_name

from compile_lab.devices import Program, count
from compile_lab.memory import fake_tensors
from compile_lab.report import sequences
from compile_lab.report.given import given
from compile_lab.report.sequences import KEYS_AND_VALUES, attention_calls, context_parallel
from compile_lab.report.shares import PatternRefused
from compile_lab.simulator.patterns import plan
from mini_model import parallel
from mini_model.model import GPTConfig, MiniGPT

pytestmark = [pytest.mark.processes, pytest.mark.filterwarnings("ignore:FSDP2-wrapped module")]

SMALL = GPTConfig(vocabulary=60, context=16, dim=32, layers=2, heads=4)
TIED = replace(SMALL, tied_head=True)
LENGTH, WIDTH, HEADS = 16, 24, 4


def gpt(config, rows=4):
    tokens = torch.randint(config.vocabulary, (rows, config.context))
    return given(MiniGPT(config), (tokens, tokens))


def together(step):
    """All that is sent, by kind: how many collectives, and their bytes."""
    sums = {}
    for each in (*step.sent, *(one for _, one in step.exchanged)):
        count_, nbytes = sums.get(each.kind, (0, 0))
        sums[each.kind] = count_ + each.count, nbytes + each.payload_nbytes
    return sums


@pytest.mark.parametrize(("config", "devices"), [(SMALL, 4), (TIED, 8)], ids=["4", "tied, 8"])
def test_the_books_model_holds_and_sends_what_its_plan_and_its_own_context_parallel_do(config, devices):
    step = context_parallel(gpt(config, devices), devices)
    (share,) = plan(config, "cp", devices).stages
    assert step.held == share.held and not step.sequence.not_run

    def build():
        mesh = parallel.make_mesh("cp", devices)
        spread, tokens = parallel.parallelize(MiniGPT(config), "cp", mesh), torch.zeros(devices, 16, dtype=torch.long)
        return Program(lambda: spread.step(tokens, tokens, average=False), spread.parts, mesh)

    own = {each.kind: (each.count, each.payload_nbytes) for each in count(build, devices)}
    assert together(step) == own == {each.kind: (each.count, each.payload_nbytes) for each in share.collectives}
    assert [label for label, _ in step.exchanged] == list(KEYS_AND_VALUES.values())


def test_without_memory_it_says_what_it_says_with_it():
    with fake_tensors():
        fake = gpt(SMALL)
    with fake.fakes:  # as a report does
        found = context_parallel(fake, 4)
    real = context_parallel(gpt(SMALL), 4)
    assert not found.sequence.not_run
    assert (found.held, found.sent, found.exchanged) == (real.held, real.sent, real.exchanged)


def test_where_a_device_cannot_be_run_its_activations_are_computed_and_it_says_why(monkeypatch):
    def broken(*_):
        raise RuntimeError("not today")

    real = context_parallel(gpt(SMALL), 4)
    monkeypatch.setattr(sequences, "_run", broken)
    found = context_parallel(gpt(SMALL), 4)
    assert found.sequence.not_run.startswith("RuntimeError: not today")
    assert together(found) == together(real)
    assert replace(found.held, activations=0) == replace(real.held, activations=0)
    assert 0.8 < found.held.activations / real.held.activations < 1, "it knows of no piece that is put together"


class Attends(nn.Module):
    """One layer; ``attend`` is called with queries, keys and values, [batch, heads, length, width]."""

    def __init__(self, attend, groups=HEADS):
        super().__init__()
        self.q, self.kv = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 2 * groups * WIDTH // HEADS)
        self.attend, self.groups = attend, groups

    def forward(self, x, *more):
        def by_heads(t, heads):
            return t.unflatten(-1, (heads, -1)).transpose(1, 2)

        keys, values = by_heads(self.kv(x), 2 * self.groups).chunk(2, 1)
        return self.attend(by_heads(self.q(x), HEADS), keys, values, *more).square().mean()


def x(length=LENGTH):
    return torch.randn(3, length, WIDTH)


def test_a_call_is_seen_by_whatever_name_and_grouped_keys_are_fewer_bytes():
    grouped = Attends(lambda q, k, v: by_its_name(q, k, v, is_causal=True, enable_gqa=True), groups=2)
    step = context_parallel(given(grouped, x()), 4)
    keys = 2 * 3 * LENGTH * WIDTH // 2 * 4
    assert [(each.count, each.payload_nbytes) for _, each in step.exchanged] == [(2, keys)] * 2
    assert step.sequence.causal and not step.sequence.not_run


def test_torchs_own_layers_are_seen_and_no_mask_needs_no_two_pieces():
    layer = nn.TransformerEncoderLayer(WIDTH, HEADS, batch_first=True, dropout=0.0)
    step = context_parallel(given(layer, x(6)), 3)  # six positions: two for each, not two pieces of one
    assert [call[:4] for call in step.sequence.calls] == [(6, 6, False, False)]
    assert not step.sequence.causal and not step.sequence.not_run


def test_a_mask_goes_along_and_keys_of_another_length_stay_where_they_are():
    masked = Attends(lambda q, k, v, mask: F.scaled_dot_product_attention(q, k, v, attn_mask=mask))
    step = context_parallel(given(masked, (x(), torch.ones(LENGTH, LENGTH, dtype=torch.bool))), 4)
    assert not step.sequence.not_run and step.sequence.over_it[0].masked

    def twice(q, k, v):
        return F.scaled_dot_product_attention(F.scaled_dot_product_attention(q, k, v), k[:, :, :2], v[:, :, :2])

    step = context_parallel(given(Attends(twice), x()), 4)
    assert [call.keys for call in step.sequence.calls] == [LENGTH, 2] and len(step.sequence.over_it) == 1
    assert [each.count for _, each in step.exchanged] == [2, 2]


class Patches(nn.Module):
    """Makes its sequence of an image: the batch has no dimension of it."""

    def __init__(self):
        super().__init__()
        self.patch, self.layer = nn.Conv2d(3, WIDTH, 8, 8), Attends(F.scaled_dot_product_attention)

    def forward(self, image):
        return self.layer(self.patch(image).flatten(2).transpose(1, 2))


def test_a_sequence_that_the_model_makes_is_computed():
    step = context_parallel(given(Patches(), torch.randn(2, 3, 32, 32)), 4)
    assert "no tensor of the batch has a dimension of 16 positions" in step.sequence.not_run
    assert [each.count for _, each in step.exchanged] == [2, 2]


@pytest.mark.parametrize(
    ("make", "devices", "why", "todo"),
    [
        (lambda: given(nn.Linear(4, 4), torch.ones(2, 4)), 2, "No attention was seen", "--pattern fsdp"),
        (lambda: gpt(SMALL), 3, "16 positions cannot be divided among 3 devices: each takes two", "a multiple of 6"),
        (lambda: given(Attends(by_its_name), x(15)), 2, "equally many positions", "a multiple of 2"),
    ],
    ids=["no attention", "three", "odd"],
)
def test_what_does_not_go_is_refused_with_the_rule_and_the_way_out(make, devices, why, todo):
    with pytest.raises(PatternRefused) as caught:
        context_parallel(make(), devices)
    assert why in caught.value.why and todo in caught.value.todo


def test_attention_stands_for_itself_afterwards():
    plain = F.scaled_dot_product_attention
    assert len(attention_calls(gpt(SMALL))) == SMALL.layers
    assert F.scaled_dot_product_attention is plain
