"""A report on a small GPT, from a file to a page: every card, and what becomes of a card whose part fails."""

import dataclasses
import gc
import json
import re
import time
from importlib.util import find_spec
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from compile_lab.measure.timing import collected_seldom
from compile_lab.report.__main__ import main
from compile_lab.report.captured import PARTS, Captured, CapturePart, ReportOptions, captured
from compile_lab.report.cards import report_of
from compile_lab.report.given import given, loaded
from compile_lab.report.limits import PartTookTooLong
from compile_lab.report.model import CARDS, build_report, card, cards_of, report, state_kept
from compile_lab.report.model_view import page
from compile_lab.report.parallel import on_devices
from compile_lab.report.sharded import outer_blocks
from compile_lab.report.tries import tried
from compile_lab.report.whole_step import attributes_kept
from compile_lab.tensors import nbytes
from compile_lab.virtual_gpu.errors import VirtualGPUError

pytestmark = [pytest.mark.processes, pytest.mark.filterwarnings("ignore")]
SOURCE = """
import torch
from torch import nn
from mini_model.model import GPTConfig, MiniGPT

def tiny():
    model = MiniGPT(GPTConfig(vocabulary=64, context=8, dim=16, layers=1, heads=2))
    tokens = torch.randint(0, 64, (4, 8))
    return model, {"tokens": tokens, "targets": tokens}

class Branch(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(4, 4), nn.Linear(4, 4)
    def forward(self, x):
        h = self.one(x)
        if h.sum() > 0:
            h = h * 2
        return self.two(h)

def branch():
    return Branch(), torch.ones(3, 4)

def huge():
    return nn.Linear(300_000, 300_000), torch.ones(2, 300_000)
"""
WITHOUT_A_CHIP = ("trace", "tries", "rates", "state", "graphs", "memory", "eager")
HAS_TRITON = find_spec("triton") is not None


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("own") / "own_model.py"
    path.write_text(SOURCE)
    return path


@pytest.fixture(scope="module")
def found(file):
    """Everything of the small GPT, the virtual GPU included."""
    torch.manual_seed(0)
    subject = loaded(f"{file}:tiny")
    with state_kept(subject.model), pytest.MonkeyPatch.context() as patch:
        patch.setattr("compile_lab.report.tries.LARGEST_KERNELS", 2)
        return captured(subject, ReportOptions(devices=2, limit_s=600))


@pytest.fixture(scope="module")
def branching(file):
    return captured(loaded(f"{file}:branch"), ReportOptions(limit_s=600), only=WITHOUT_A_CHIP)


def whole(found: Captured):
    return {name: card(name, found) for name in cards_of(found)}


@pytest.mark.slow
def test_every_card_stands_and_says_its_numbers(found):
    assert HAS_TRITON, "without Triton this proves nothing about the kernels: pip install triton"
    cards = whole(found)
    assert {name: each.verdict for name, each in cards.items() if each.severity == "failed"} == {}
    assert cards["breaks"].severity == "good" and "1 graph" in cards["breaks"].verdict
    launches = len(found.code.kernels)
    assert f"{launches} launches on a virtual H200" in cards["kernels"].verdict and launches > 10
    registers = [row[4] for row in cards["kernels"].parts[1].rows]
    assert all(1 < each <= 255 for each in registers[:2]) and registers[2] is None, "of the largest kernels alone"
    assert f"{found.graphs.joint.ops} operations" in cards["joint"].verdict
    saved = cards["saved"].parts
    assert sum(row[4] for table in saved[:2] for row in table.rows) == found.graphs.saved_nbytes
    assert sum(size for _, size in saved[2].rows) == found.graphs.saved_nbytes
    held, parameters = dict(cards["devices"].parts[0].rows), nbytes(list(found.given.model.parameters()))
    assert held["parameters"] == parameters / 2 and held["AdamW's state"] == parameters, "on two devices"
    rows = {row[0]: row[1] for row in cards["guards"].parts[0].rows}
    assert rows["batch of 3"] == "compiled again" and rows["batch of 2"] == "used again"
    assert rows["eval mode"] == "used again"  # nothing in this model asks for the mode


@pytest.mark.slow
def test_the_floating_point_work_is_that_of_the_matrix_products(found):
    batch, length, dim, vocabulary = 4, 8, 16, 64
    linear = 2 * batch * length * dim * (3 * dim + dim + 4 * dim + 4 * dim + vocabulary)
    attention = 2 * 2 * batch * length * length * dim
    forward, backward = (row[2] for row in card("joint", found).parts[0].rows[1:3])
    assert forward == linear + attention
    assert backward >= 2 * linear + 2 * attention  # attention's backward computes its scores once more


@pytest.mark.slow
def test_the_peak_is_that_of_the_lifetimes_and_five_tensors_are_named(found):
    memory = card("memory", found)
    curve, attacked, kinds = memory.parts[:3]
    assert max(curve.live_bytes) == found.memory.peak_nbytes
    assert len(attacked.rows) == 5
    sizes = dict(kinds.rows)
    parameters = sum(map(nbytes, found.given.model.parameters()))
    assert sizes["AdamW's state, if you use it"] == 2 * parameters
    assert sum(found.memory.peak_by_kind().values()) == found.memory.peak_nbytes


def test_a_list_of_modules_inside_a_block_belongs_to_the_block():
    block = nn.Module()
    block.layer = nn.ModuleList([nn.Linear(2, 2)])
    model = nn.Sequential(nn.Linear(2, 2))
    model.add_module("blocks", nn.ModuleList([block]))
    assert list(outer_blocks(model)) == [block]


def test_a_change_lists_only_how_it_differs_from_the_call_as_it_is():
    """Between them came a batch of 1, whose own code expects one row: that is no news of another length."""
    model = nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 1))
    changes = {each.change: each for each in tried(given(model, torch.ones(2, 8, dtype=torch.long)))}
    one, shorter = changes["batch of 1"], changes["length 7"]
    assert (one.outcome, shorter.outcome) == ("compiled", "compiled")
    assert [re.findall(r"index .*", said) for said in (*one.failed, *shorter.failed)] == [
        ["index 0. expected 2, actual 1"],
        ["index 1. expected 8, actual 7"],
    ]


def test_the_kernels_have_their_time_from_the_reports_begin(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("compile_lab.report.captured.time", SimpleNamespace(perf_counter=lambda: now[0]))
    monkeypatch.setitem(PARTS, "trace", CapturePart("a slow part", lambda found: now.__setitem__(0, 1.5)))
    monkeypatch.setitem(PARTS, "code", CapturePart("kernels", lambda found: time.sleep(3600)))
    found = captured(given(nn.Linear(3, 1), torch.ones(6, 3)), ReportOptions(limit_s=2), only=("trace", "code"))
    stopped = found.parts["code"]
    assert isinstance(stopped, PartTookTooLong)
    assert str(stopped) == "it took longer than 0.5 s", "of 2 s, the first part took 1.5"


@pytest.mark.slow
def test_the_page_has_every_card_the_worst_first_and_is_the_same_from_its_data(found, monkeypatch):
    monkeypatch.setattr("compile_lab.report.model.captured", lambda *_, **__: found)
    made = build_report(found.given, found.options)
    text = page(made)
    for each in made.cards:
        assert f'id="report-{each.name}"' in text and f'href="#report-{each.name}"' in text
    severities = [each.severity for each in made.cards]
    assert severities == sorted(severities, key=["bad", "failed", "look", "good"].index)
    assert page(report_of(json.loads(json.dumps(made.as_data())))) == text
    assert made._repr_html_() in text


def test_a_failed_part_takes_no_other_card_away(branching):
    cards = whole(branching)
    memory = cards["memory"]
    assert "of the step as eager runs it" in memory.verdict and "since the graphs are a part" in memory.parts[-1].text
    lost = {**branching.parts, "eager": RuntimeError("no eager step today")}
    memory = card("memory", dataclasses.replace(branching, parts=lost))
    assert memory.severity == "failed" and "graphs" in memory.verdict
    assert "fix the graph breaks" in memory.parts[0].text
    assert cards["saved"].severity == cards["joint"].severity == "look"


def test_a_scalar_parameter_stays_whole_under_fsdp():
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks, self.scale = nn.ModuleList([nn.Linear(4, 4)]), nn.Parameter(torch.tensor(2.0))

        def forward(self, x):
            return (self.blocks[0](x) * self.scale).sum()

    found = on_devices(given(Scaled(), torch.ones(2, 4)), 2, "fsdp")
    assert found.held.parameters == 4 * ((4 * 4 + 4) // 2 + 1)


@pytest.mark.slow
def test_without_memory_a_model_says_what_it_says_with_it(file):
    asked = (*WITHOUT_A_CHIP, "sharded")
    real, fake = (
        captured(loaded(f"{file}:tiny", fake), ReportOptions(devices=2, limit_s=600), only=asked)
        for fake in (False, True)
    )
    for name in ("breaks", "guards", "joint", "saved", "memory", "devices"):
        assert card(name, fake).figures == card(name, real).figures != ()


def test_a_model_that_no_machine_holds_is_read(file):
    subject = loaded(f"{file}:huge", fake=True)
    made = captured(subject, ReportOptions(limit_s=600), only=("trace", "state", "graphs", "memory"))
    memory = card("memory", made)
    assert "does not fit an H200" in memory.verdict and memory.severity == "bad"
    assert dict(memory.parts[2].rows)["AdamW's state, if you use it"] == 2 * 4 * (300_000**2 + 300_000)


@pytest.mark.slow
def test_without_a_virtual_gpu_its_cards_say_so_and_the_memory_is_that_of_the_graphs(found):
    error = VirtualGPUError("no C++ compiler was found: install g++")
    parts = {**found.parts, "code": error, "registers": error, "casts": error}
    bare = dataclasses.replace(found, parts=parts)
    cards = whole(bare)
    for name in ("kernels", "casts"):
        assert cards[name].severity == "failed" and "no C++ compiler" in cards[name].verdict
        assert "compile_lab.preflight" in cards[name].parts[0].text
    assert "AOTAutograd's graphs" in cards["memory"].parts[-1].text


def test_a_part_that_takes_too_long_is_stopped_and_told(monkeypatch):
    monkeypatch.setitem(PARTS, "trace", CapturePart("a slow part", lambda found: time.sleep(3600)))
    stopped = captured(given(nn.Linear(3, 1), torch.ones(6, 3)), ReportOptions(limit_s=0.2), only=("trace",))
    assert "it was stopped after 0.2 s" in card("breaks", stopped).verdict


def test_a_cards_own_mistake_is_told_as_such(branching, monkeypatch):
    monkeypatch.setitem(CARDS, "joint", ("The joint graph", lambda found: 1 / 0))
    failed = card("joint", branching)
    assert failed.severity == "failed" and "ZeroDivisionError" in failed.verdict


def test_the_model_is_afterwards_what_it_was():
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5))
    model[1].eval()
    model[0].weight.grad = gradient = torch.ones(4, 4)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    drawn = torch.get_rng_state()
    with state_kept(model):
        model.train()
        model(torch.ones(3, 4)).sum().backward()
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert model[0].weight.grad is gradient and torch.equal(torch.get_rng_state(), drawn)
    assert not model[1].training and model[2].training


class Lazy(nn.Module):
    """Puts other tensors in its buffers' places, makes one as it first runs, counts, and freezes a parameter."""

    def __init__(self):
        super().__init__()
        self.linear, self.calls, self.ready = nn.Linear(4, 4), 0, False
        self.register_buffer("largest", torch.zeros(4))
        self.register_buffer("mask", None)

    def forward(self, x):
        if not self.ready:
            self.register_buffer("scale", torch.ones(4))
            self.ready = True
        y = self.linear(x) * self.scale
        self.largest = torch.maximum(self.largest, y.detach().abs().amax(0))
        self.mask, self.calls = (y > 0).detach(), self.calls + 1
        self.linear.bias.requires_grad_(False)
        return (y * self.largest).square().mean()


def by_a_report(model, x):
    report(lambda x: model(x), (x,))


def by_one_call(model, x):
    with attributes_kept(model):
        model(x)
    model.linear.bias.requires_grad_(True)  # whose it is, `Kept` says


@pytest.mark.parametrize("used", [by_one_call, by_a_report])
def test_attributes_name_afterwards_what_they_did_before(used):
    model = Lazy()
    before, largest = dict(vars(model)), model.largest
    used(model, torch.randn(2, 4))
    assert vars(model) == before and dict(model.named_buffers()) == {"largest": largest}
    assert not largest.any() and model.linear.bias.requires_grad


def test_while_a_report_is_made_garbage_is_looked_for_seldom_and_afterwards_as_before():
    before = gc.get_threshold()
    with collected_seldom():
        assert gc.get_threshold()[0] > before[0] and gc.get_freeze_count() > 0
    assert gc.get_threshold() == before and gc.get_freeze_count() == 0


@pytest.mark.slow
def test_the_command_writes_a_report_and_compares_it_with_an_earlier_one(file, tmp_path, capsys):
    target, earlier, page_of = f"{file}:tiny", str(tmp_path / "out.json"), tmp_path / "out.html"
    assert main([target, "--json", "-o", earlier]) == 0
    assert json.loads((tmp_path / "out.json").read_text())["name"] == "MiniGPT of own_model.py"
    assert "out.json, " in capsys.readouterr().out
    assert main([target, "--compare", earlier, "-o", str(page_of)]) == 0
    assert page_of.read_text().startswith("<!doctype html>") and "What moved" in page_of.read_text()


def test_what_the_command_can_refuse_it_refuses_before_anything_runs(file, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("compile_lab.report.__main__.supervised", None)
    for target, output, more, said in (
        ("train.py", "o.html", (), "names no function"),
        (f"{tmp_path}/nothere.py:make", "o.html", (), "is no Python file here"),
        (f"{file}:tiny", "nowhere/o.html", (), "its folder does not exist"),
        (f"{file}:tiny", "o.html", ("--limit-gb", "0"), "--limit-gb is 0"),
    ):
        assert main([target, "-o", str(tmp_path / output), *more]) == 2
        told = capsys.readouterr().err
        assert said in told and told.count("\n") == 1
    assert not (tmp_path / "o.html").exists()
