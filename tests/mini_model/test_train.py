"""Training: exact continuation, kills, damage, full disks, bad options, and the promise about loss and grammar."""

import io
import os
import pickle
import re
import signal
import subprocess
import sys
import zipfile
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch

from mini_model import checkpoint, lock
from mini_model.checkpoint import CheckpointError
from mini_model.grammar import GRAMMAR
from mini_model.loop import Settings, windows
from mini_model.model import CONFIGS, GPTConfig
from mini_model.train import MODES, main, train

pytestmark = pytest.mark.processes

SHAPE = GPTConfig(vocabulary=600, context=16, dim=16, layers=1, heads=2)
TINY = Settings(config="tiny", steps=12, batch=2, lr=1e-2, seed=5)


@pytest.fixture(autouse=True)
def tiny(monkeypatch):
    monkeypatch.setitem(CONFIGS, "tiny", SHAPE)


@pytest.fixture(scope="module")
def complete(tmp_path_factory):
    """The file of a run that came to its end."""
    file = tmp_path_factory.mktemp("complete") / "run.pt"
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(CONFIGS, "tiny", SHAPE)
        train(TINY, file=file)
    return file.read_bytes()


@pytest.fixture
def file(tmp_path, complete):
    (tmp_path / "run.pt").write_bytes(complete)
    return tmp_path / "run.pt"


def same(a: torch.nn.Module, b: torch.nn.Module) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a.parameters(), b.parameters(), strict=True))


def test_batches_depend_on_seed_and_step_only_and_validation_is_apart():
    inputs, _ = windows(TINY, 3, stream=0, step=4)
    assert torch.equal(inputs, windows(TINY, 3, stream=0, step=4)[0])
    others = [(TINY, 0, 5), (TINY, 1, 4), (replace(TINY, seed=6), 0, 4)]
    assert not any(torch.equal(inputs, windows(s, 3, stream, step)[0]) for s, stream, step in others)


def stopped(file: Path, after: int) -> None:
    """A run that ends as soon as the checkpoint of a step is there."""
    save = checkpoint.save

    def interrupted(path, settings, step, *rest):
        save(path, settings, step, *rest)
        if step == after:
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(checkpoint, "save", interrupted)
        train(TINY, file=file, every=1)


@pytest.mark.parametrize("stop", [4, 11])
def test_a_continued_run_is_bit_for_bit_the_uninterrupted_one(tmp_path, stop, capsys):
    file = tmp_path / "run.pt"
    uninterrupted = train(TINY)
    stopped(file, stop)
    continued = train(TINY, file=file, every=5)
    assert f"at step {stop} of 12" in capsys.readouterr().err
    assert same(continued, uninterrupted)
    assert checkpoint.load(file, asdict(TINY))["step"] == 12
    assert same(train(TINY, file=file), uninterrupted)  # complete: nothing left to do


def test_control_c_ends_with_a_message_and_leaves_the_checkpoint(tmp_path, monkeypatch, capsys):
    file, save = tmp_path / "run.pt", checkpoint.save

    def pressed(path, settings, step, *rest):
        save(path, settings, step, *rest)
        if step == 6:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(checkpoint, "save", pressed)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background is deaf to it
    try:
        command = ["--config", "tiny", "--batch", "1", "--every", "3", "--device", "cpu", "--checkpoint", str(file)]
        assert main(command) == 130
    finally:
        signal.signal(signal.SIGINT, before)
    errors = capsys.readouterr().err
    assert f"stopped; the same command continues from {file}" in errors and "Traceback" not in errors
    assert checkpoint.load(file, asdict(Settings("tiny", batch=1)))["step"] == 6
    assert [path.name for path in tmp_path.iterdir()] == ["run.pt"]


class Executes:
    def __reduce__(self):
        return os.mkdir, ("executed",)


def archive(content: object) -> bytes:
    made = io.BytesIO()
    torch.save(content, made)
    return made.getvalue()


def foreign_zip() -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as file:
        file.writestr("letter.txt", "hello")
    return made.getvalue()


DAMAGED = {
    "empty": lambda good: b"",
    "truncated": lambda good: good[: len(good) // 2],
    "one bit flipped": lambda good: good[: (at := len(good) // 2)] + bytes([good[at] ^ 1]) + good[at + 1 :],
    "text": lambda good: b"step,loss\n1,6.4\n",
    "foreign zip": lambda good: foreign_zip(),
    "weights of another model": lambda good: archive({"weight": torch.zeros(3)}),
    "pickle that executes": lambda good: pickle.dumps(Executes()),
    "archive that executes": lambda good: archive(Executes()),
}


@pytest.mark.parametrize("kind", DAMAGED)
def test_a_damaged_or_foreign_file_is_refused_and_left_alone(file, kind, monkeypatch):
    monkeypatch.chdir(file.parent)
    file.write_bytes(DAMAGED[kind](file.read_bytes()))
    before = file.read_bytes()
    with pytest.raises(CheckpointError, match=r"run\.pt: (damaged, or )?not a checkpoint.*It is left as it is") as told:
        train(TINY, file=file)
    assert "weights_only" not in str(told.value), "torch's advice is to load it without a precaution"
    assert file.read_bytes() == before
    assert [path.name for path in file.parent.iterdir()] == ["run.pt"]  # nothing was executed, nothing left over


ALTERED = {
    "a weight is missing": (lambda c: c["model"].pop("norm.bias"), r"weights.*'norm.bias' is missing"),
    "a weight too many": (lambda c: c["model"].update(more=torch.ones(2)), r"'more' is float32 \[2\], .*left out"),
    "another shape": (lambda c: c["model"].update({"norm.bias": torch.ones(3)}), r"float32 \[3\], .*float32 \[16\]"),
    "no tensor": (lambda c: c["model"].update({"norm.bias": "zero"}), "no tensor but a str"),
    "moments of one are missing": (lambda c: c["optimizer"]["state"].pop(3), r"\(3, 'step'\) is missing"),
    "moments of another shape": (lambda c: c["optimizer"]["state"][3].update(exp_avg=torch.ones(5)), r"float32 \[5\]"),
    "a weight that is no number": (lambda c: c["model"]["norm.bias"].fill_(torch.nan), "'norm.bias' holds NaN"),
    "a moment that is no number": (
        lambda c: c["optimizer"]["state"][3]["exp_avg"].fill_(torch.inf),
        r"'exp_avg'\) holds",
    ),
    "moments of another step": (lambda c: c["optimizer"]["state"][3]["step"].fill_(2), "moments are of another step"),
    "no optimizer": (lambda c: c.update(optimizer=[]), r"moments.*is missing"),
    "a step that is none": (lambda c: c.update(step="x"), "its step is 'x'; it must be a whole number from 0 to 12"),
    "a step too far": (lambda c: c.update(step=13), "its step is 13"),
    "no settings": (lambda c: c.update(settings=3), "other settings"),
}


@pytest.mark.parametrize("what", ALTERED)
def test_a_checkpoint_with_sound_checksums_and_other_content_is_refused(file, what):
    alter, said = ALTERED[what]
    content = torch.load(file, weights_only=True)
    alter(content)
    torch.save(content, file)
    before = file.read_bytes()
    with pytest.raises(CheckpointError, match=rf"run\.pt: .*{said}.*It is left as it is"):
        train(TINY, file=file)
    assert file.read_bytes() == before


def test_the_optimizers_rates_are_the_programs_and_not_the_files(tmp_path):
    file = tmp_path / "run.pt"
    stopped(file, 4)
    content = torch.load(file, weights_only=True)
    content["optimizer"]["param_groups"][0].update(weight_decay=0.5, betas=(0.1, 0.1))
    torch.save(content, file)
    assert same(train(TINY, file=file), train(TINY))


def test_another_number_of_threads_is_said_when_a_run_goes_on(tmp_path, capsys):
    file, own = tmp_path / "run.pt", torch.get_num_threads()
    stopped(file, 4)
    content = torch.load(file, weights_only=True)
    assert content["threads"] == own

    def said(**noted):
        torch.save({**content, **noted}, file)
        train(TINY, file=file)
        return capsys.readouterr().err

    other = said(threads=own + 6)
    assert f"its steps so far had {own + 6} CPU threads, these have {own}:" in other
    assert f"OMP_NUM_THREADS={own + 6} keeps" in other
    del content["threads"]  # as an earlier version wrote it
    for plain in (said(), said(threads=own)):
        assert "at step 4 of 12" in plain and "CPU thread" not in plain


def test_a_checkpoint_of_another_run_is_not_continued_and_not_overwritten(file, complete, monkeypatch):
    monkeypatch.setitem(CONFIGS, "other", SHAPE)
    for name, value in {"lr": 1e-3, "seed": 6, "steps": 13, "batch": 3, "config": "other"}.items():
        with pytest.raises(CheckpointError, match=rf"run\.pt: .*other settings.*{name} .*name another file"):
            train(replace(TINY, **{name: value}), file=file)
    assert file.read_bytes() == complete


def test_a_second_run_on_the_file_is_refused_while_the_first_is_at_work(file, complete):
    said = rf"run\.pt: another run is at work on it .process {os.getpid()}"
    with lock.held(lock.lock_file(file), checkpoint=file), pytest.raises(CheckpointError, match=said):
        train(TINY, file=str(file))
    assert file.read_bytes() == complete


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the always full device is Linux's")
def test_a_full_disk_keeps_the_previous_checkpoint(file, complete):
    (file.parent / ".run.pt.partial").symlink_to("/dev/full")
    with pytest.raises(CheckpointError, match=r"step 3 could not be written .No space left.*checkpoint is intact"):
        checkpoint.save(file, asdict(TINY), 3, {}, {})
    assert file.read_bytes() == complete
    assert [path.name for path in file.parent.iterdir()] == ["run.pt"]


def test_a_loss_that_is_not_finite_ends_the_run_unsaved(tmp_path, monkeypatch):
    file = tmp_path / "run.pt"
    wild = replace(TINY, lr=1e38)
    with pytest.raises(FloatingPointError, match="lower the learning rate"):
        train(wild, file=file, every=5)
    assert checkpoint.load(file, asdict(wild))["step"] == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--mode", "fastest"], r"--mode: invalid choice: 'fastest'.*reduce-overhead"),
        (["--lr", "nan"], "--lr: 'nan' is not a positive number"),
        (["--seed", "-3"], "--seed: '-3' is not a whole number from 0"),
        (["--device", "meta"], "--device: device 'meta' cannot be used here.*cpu and cuda"),
        (["--mesh", "tp=2"], "--mesh is about many devices: add --parallel PATTERN, or leave it out"),
        (["--parallel", "tp", "--mesh", "devices=2"], "--mesh: 'devices=2' are not sizes.*of cp, ep, pp"),
        (["--parallel", "fsdp", "--schedule", "GPipe"], "--schedule is of a pipeline, and --parallel fsdp has none"),
    ],
)
def test_bad_options_end_with_two_and_touch_nothing(tmp_path, options, message, capsys):
    file = tmp_path / "run.pt"
    file.write_text("precious")
    with pytest.raises(SystemExit) as ended:
        main([*options, "--checkpoint", str(file)])
    assert ended.value.code == 2
    assert re.search(message, capsys.readouterr().err)
    assert file.read_text() == "precious"


@pytest.mark.slow
def test_compiled_training_agrees_with_eager():
    eager, compiled = train(TINY), train(TINY, mode="default")
    assert MODES[1] == "default" and torch._dynamo.utils.counters["stats"]["unique_graphs"] >= 1
    for (name, x), y in zip(eager.named_parameters(), compiled.parameters(), strict=True):
        # By norm, not by element: where a gradient is next to nothing (the keys' bias has none but rounding), Adam
        # makes a whole step of its sign, and that differs between processors.
        assert (x - y).norm() <= 1e-3 * x.norm(), name


@pytest.mark.slow
@pytest.mark.timeout(2400)  # 94 s on two idle cores
def test_mini_reaches_the_grammars_entropy_and_its_sentences_parse():
    command = [sys.executable, "-m", "mini_model.train", "--device", "cpu"]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    print(output)
    loss, floor = (float(figure) for figure in re.findall(r"([\d.]+) nats per token", output))
    parsed = float(re.search(r"([\d.]+) % of 1000 parse", output)[1])
    assert floor == pytest.approx(GRAMMAR.window_entropy(64), abs=1e-4)
    assert floor - 0.03 < loss <= 1.05 * floor  # 65 536 tokens: the estimate's standard error is about 0.005
    assert parsed >= 95
    assert re.search(r"training time +\d+ s on cpu, \d+ threads, mode eager, torch \d", output)
