"""The capstone's training: what each option does."""

import math
import random
import sys

import pytest
import torch
import torch._functorch.config as functorch_config
from killable import TINY

from capstone.options import TrainingOptions, parsed
from capstone.train import train
from mini_model.model import MINI, MLP, MiniGPT

pytestmark = pytest.mark.processes


@pytest.fixture
def book(tmp_path):
    file = tmp_path / "book.txt"
    file.write_bytes(random.Random(0).randbytes(400).hex().encode())
    return file


def options(**more) -> TrainingOptions:
    return TrainingOptions(**{"config": "tiny", "steps": 12, "batch": 4, "lr": 1e-2, "seed": 5} | more)


def test_it_learns_and_reports(book, tmp_path):
    report = train(options(text=book, steps=60, log=tmp_path / "log", lr=2e-2))
    assert len(report.losses) == 60 and report.first == 0
    assert report.losses[0] == pytest.approx(math.log(600), abs=0.1)
    assert report.validation_loss < 3.2, "of 16 digits, of which each is as likely as the others"
    assert report.bits_per_byte == pytest.approx(report.validation_loss / math.log(2)) and report.floor is None
    assert report.tokens_per_s > 0 and report.peak_bytes > 1e8 and report.seconds > 0
    inputs, targets = (torch.arange(32).view(2, 16) for _ in range(2))
    assert report.model(inputs, targets).isfinite(), "a plain model"


def test_gradients_are_clipped_and_the_norm_before_is_told():
    def moved(**more):
        report = train(options(steps=1, decay=0.0, **more))
        torch.manual_seed(5)
        before = MiniGPT(TINY)
        pairs = zip(before.parameters(), report.model.parameters(), strict=True)
        return report.steps[0].gradient_norm, max((a - b).abs().max().item() for a, b in pairs)

    norm, whole = moved(clip=0)
    assert norm > 0.1
    # AdamW's first step is as long as the rate whatever the gradient, unless it is as small as AdamW's epsilon.
    clipped_norm, clipped = moved(clip=1e-12)
    assert clipped_norm == norm and whole == pytest.approx(1e-2, rel=1e-3) and clipped < whole / 100


def test_matrices_decay_and_vectors_do_not():
    plain, decayed = (dict(train(options(steps=1, decay=d)).model.named_parameters()) for d in (0.0, 0.5))
    same = {name: torch.equal(plain[name], decayed[name]) for name in plain}
    assert same == {name: each.dim() == 1 for name, each in plain.items()}


def test_checkpointing_runs_each_block_twice_and_changes_nothing(monkeypatch):
    calls, forward = [], MLP.forward
    monkeypatch.setattr(MLP, "forward", lambda self, x: calls.append(1) or forward(self, x))
    plain = train(options(steps=3)).steps
    once = len(calls)
    again = train(options(steps=3, checkpointing=True)).steps
    assert len(calls) - once == once + 3 * TINY.layers
    assert [step.loss for step in again] == [step.loss for step in plain]
    assert [step.gradient_norm for step in again] == [step.gradient_norm for step in plain]


def test_bfloat16_is_the_computation_and_float32_the_weights():
    exact, rounded = (train(options(steps=3, dtype=dtype)) for dtype in ("float32", "bfloat16"))
    assert rounded.losses != exact.losses and rounded.losses == pytest.approx(exact.losses, abs=0.02)
    assert all(parameter.dtype == torch.float32 for parameter in rounded.model.parameters())


@pytest.mark.slow
def test_the_compiler_keeps_what_each_runs_budget_allows(monkeypatch):
    def without_kernels(model, mode):
        assert mode == "default"
        return torch.compile(model, backend="aot_eager_decomp_partition", fullgraph=True, dynamic=False)

    def kept(**more):
        nbytes, before = [], functorch_config.activation_memory_budget
        with torch.autograd.graph.saved_tensors_hooks(
            lambda each: nbytes.append(each.nbytes) or each, lambda each: each
        ):
            losses = train(options(steps=2, compile="default", **more)).losses
        assert losses == pytest.approx(eager, abs=1e-5) and functorch_config.activation_memory_budget == before
        return sum(nbytes)

    eager = train(options(steps=2)).losses
    monkeypatch.setattr(sys.modules[train.__module__], "in_one_graph", without_kernels)
    assert kept(budget=0) < 0.8 * kept(budget=0.5) < 0.8 * 0.9 * kept()
    assert kept(checkpointing=True) < 0.8 * kept()


@pytest.mark.slow
def test_compiled_in_earnest_it_is_the_same_training():
    eager, compiled = (train(options(steps=3, compile=mode)).losses for mode in ("none", "default"))
    assert compiled == pytest.approx(eager, abs=1e-4)


def test_a_command_line_is_the_same_options(capsys):
    words = "--config gpt2-124m --steps 7 --clip 0 --text a b --compile default --budget 0 --log l.jsonl --device cpu"
    assert parsed(words.split()) == TrainingOptions(
        config="gpt2-124m", steps=7, clip=0.0, text=("a", "b"), compile="default", budget=0.0, log="l.jsonl"
    )
    assert parsed([]).settings.lr == 8e-3 and parsed([]).window == MINI.context
    with pytest.raises(SystemExit):
        parsed(["--budget", "0.5"])
    assert "nothing is compiled" in capsys.readouterr().err
