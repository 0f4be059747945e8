"""The card on several devices, by each pattern: what it says of a share that is not the whole, and of a refusal."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from compile_lab.report import report
from compile_lab.report.captured import ReportOptions, captured
from compile_lab.report.given import given
from compile_lab.report.model import card
from compile_lab.virtual_gpu import chip
from mini_model.model import GPTConfig, MiniGPT

pytestmark = [pytest.mark.processes, pytest.mark.filterwarnings("ignore")]

SHAPE = {"vocabulary": 60, "context": 16, "dim": 32, "layers": 2, "heads": 4}


def of(pattern, devices=4, experts=0, model=None, batch=None):
    torch.manual_seed(0)
    if model is None:
        tokens = torch.randint(60, (4, 16))
        model, batch = MiniGPT(GPTConfig(**SHAPE, experts=experts)), (tokens, tokens)
    options = ReportOptions(devices=devices, pattern=pattern, limit_s=600)
    found = captured(given(model, batch), options, only=("sharded",))
    return found, card("devices", found)


def words(made):
    return " ".join([made.verdict, *(getattr(part, "text", "") for part in made.parts)])


def test_expert_parallel_says_who_waits_and_that_its_rows_are_of_one_batch():
    found, made = of("ep", experts=8)
    step, figures = found.sharded, {each.name: each.value for each in made.figures}
    assert made.severity == "look", "a share of one batch's rows is never fine"
    assert "The rows are computed from one batch." in made.verdict and "Not seen: " in words(made)
    assert figures["held by a device"] == sum(vars(step.held).values())
    rows = dict(step.exchanged)["all_to_all of rows, on average"]
    assert figures["sent by the busiest"] - figures["sent by a device"] > 0
    assert "rows that are exchanged, 32.8 kB, if" in words(made), "2 layers of 128 rows of 128 bytes"
    layers = made.parts[2].rows
    assert [row[0] for row in layers] == ["blocks.0.mlp", "blocks.1.mlp"]
    assert rows.payload_nbytes == sum(4 * sum(layer.rows) * layer.there_nbytes for layer in step.routed)
    assert [row[-2] for row in layers] == [4 * 4 * 16 * 2] * 2, "four devices, four rows of 16 tokens, two choices"


def test_a_fullest_device_that_may_not_fit_is_no_fit(monkeypatch):
    found, made = of("ep", experts=8)
    assert "it fits an H200" in made.verdict
    total = sum(vars(found.sharded.held).values())
    small = replace(chip("H200"), memory_nbytes=total)
    monkeypatch.setattr("compile_lab.report.device_cards.chip_named", lambda name: small)
    made = card("devices", found)
    assert "it may not fit an H200" in made.verdict and made.severity == "bad"


def test_context_parallel_names_the_imbalance_and_that_keys_and_values_do_not_shrink():
    _, made = of("cp")
    assert "4 of 16 positions" in made.verdict and "1.75 times the mean of pairs" in words(made)
    assert "no number of devices makes less" in words(made) and made.severity == "good"


def test_what_is_computed_and_not_run_is_never_called_fine():
    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.places = nn.Parameter(torch.randn(8, 16))  # as many as the whole sequence

        def forward(self, x):
            x = (x + self.places)[:, None]
            return F.scaled_dot_product_attention(x, x, x, is_causal=True).mean()

    _, made = of("cp", 2, model=Own(), batch=torch.randn(3, 8, 16))
    assert made.severity == "look" and "computed, not run" in made.verdict
    assert "test_device_cards.py, line " in words(made)


@pytest.mark.parametrize("pattern", ["ep", "cp"])
def test_a_pattern_that_does_not_go_is_told_with_the_way_out(pattern):
    _, made = of(pattern, model=nn.Linear(4, 4), batch=torch.ones(2, 4))
    assert made.severity == "bad" and " does not go: No " in made.verdict
    assert made.parts[0].text.startswith("**What to do:** ") and "--pattern fsdp" in made.parts[0].text


@pytest.mark.parametrize("pattern", ["ddp", "fsdp"])
def test_data_parallel_is_a_real_step_and_fine(pattern):
    assert of(pattern)[1].severity == "good"


def test_a_pattern_without_devices_is_refused():
    with pytest.raises(ValueError, match="pattern='ep' says how devices share the work, and devices is not there"):
        report(nn.Linear(4, 4), torch.ones(2, 4), pattern="ep")
