"""A training that is killed or stopped loses nothing but an interval, and goes on to the same end, to the bit."""

import json
import os
import resource
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from killable import told

from capstone.log import LogError, TrainingLog
from capstone.options import TrainingOptions
from capstone.train import main, train
from mini_model import checkpoint, lock, loop, stops
from mini_model.checkpoint import CheckpointError

pytestmark = pytest.mark.processes


def options(folder: Path, **more) -> TrainingOptions:
    files = {"checkpoint": folder / "run.pt", "log": folder / "log.jsonl", "every": 5}
    return TrainingOptions(**{"config": "tiny", "steps": 12, "batch": 4, "lr": 1e-2, "seed": 5} | files | more)


def froms(path: Path) -> list[int]:
    """The headers of a log: the steps done before each part of the run."""
    return [line["from"] for line in map(json.loads, path.read_text().splitlines()) if "run" in line]


def press(number: int = signal.SIGINT) -> None:
    """Control-C, or another signal, and not over before it was noticed: two signals that come at once are one."""
    before, end = signal.getsignal(number), time.monotonic() + 300
    os.kill(os.getpid(), number)
    while signal.getsignal(number) is before:
        assert time.monotonic() < end, "no signal came"
        time.sleep(0.001)


def interrupted(monkeypatch, asked: TrainingOptions, after: int, signals: int = 1) -> None:
    """A run that gets Control-C when a step is logged."""
    add = TrainingLog.add

    def pressed(self, steps):
        add(self, steps)
        if steps[-1].step == after:
            for _ in range(signals):
                press()

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background process ignores Control-C
    try:
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(TrainingLog, "add", pressed)
            train(asked)
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("stop", [5, 7])
def test_control_c_saves_the_step_it_came_in_and_the_run_goes_on_to_the_bit(stop, tmp_path, monkeypatch):
    (tmp_path / "whole").mkdir()
    asked, before = options(tmp_path), signal.getsignal(signal.SIGINT)
    whole = train(options(tmp_path / "whole"))
    interrupted(monkeypatch, asked, stop)
    assert signal.getsignal(signal.SIGINT) is before
    assert checkpoint.load(asked.checkpoint, asked.run("grammar"))["step"] == stop

    said = []
    continued = train(asked, said.append)
    assert said == [f"continuing from {asked.checkpoint} at step {stop} of 12"]
    assert continued.first == stop and continued.losses == whole.losses[stop:]
    assert told(asked.log) == told(tmp_path / "whole/log.jsonl") and froms(asked.log) == [0, stop]
    assert continued.validation_loss == whole.validation_loss
    assert all(map(torch.equal, continued.model.parameters(), whole.model.parameters()))


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_command_saves_its_step_at_each_signal_that_asks_to_stop_and_says_how_to_go_on(
    number, tmp_path, monkeypatch, capsys
):
    add, before = TrainingLog.add, [signal.getsignal(each) for each in stops.STOP_SIGNALS]

    def pressed(self, steps):
        add(self, steps)
        press(number)

    words = f"--config tiny --steps 12 --batch 4 --device cpu --log {tmp_path}/log".split()
    with monkeypatch.context() as patch:
        patch.setattr(TrainingLog, "add", pressed)
        assert main([*words, "--checkpoint", f"{tmp_path}/run.pt"]) == 128 + number
        assert (
            f"stopped after step 1 of 12; the same command continues from {tmp_path}/run.pt" in capsys.readouterr().err
        )
        assert main(words) == 128 + number
        assert "stopped after step 1 of 12; nothing was saved" in capsys.readouterr().err
    now = [signal.getsignal(each) for each in stops.STOP_SIGNALS]
    assert now == [signal.SIG_DFL] * 3, "a second one ends it at once"
    for each, handler in zip(stops.STOP_SIGNALS, before, strict=True):
        signal.signal(each, handler)
    assert main([*words, "--checkpoint", f"{tmp_path}/run.pt"]) == 0
    shown = capsys.readouterr()
    assert "continuing from" in shown.err and shown.out.startswith("validation loss")


def test_a_second_control_c_does_not_wait(tmp_path, monkeypatch):
    interrupted(monkeypatch, options(tmp_path), after=7, signals=2)
    assert checkpoint.load(tmp_path / "run.pt", options(tmp_path).run("grammar"))["step"] == 5


def test_a_finished_run_has_nothing_left_to_do(tmp_path):
    first, again = train(options(tmp_path)), train(options(tmp_path))
    assert again.losses == () and again.tokens_per_s is None and "speed" not in str(again)
    assert again.validation_loss == first.validation_loss
    assert [step for step, *_ in told(tmp_path / "log.jsonl")] == list(range(1, 13))


def test_a_checkpoint_of_another_run_is_refused_and_left_as_it_is(tmp_path):
    train(options(tmp_path))
    before = (tmp_path / "run.pt").read_bytes()
    for name, value in {"clip": 0.5, "decay": 0.0, "dtype": "bfloat16", "length": 8, "steps": 13}.items():
        with pytest.raises(CheckpointError, match=f"other settings.*{name} "):
            train(options(tmp_path, **{name: value}))
    text = tmp_path / "text"
    text.write_bytes(b"Once upon a time. " * 50)
    with pytest.raises(CheckpointError, match="data 'grammar', not 'text of 900 bytes, crc32 "):
        train(options(tmp_path, text=text))
    with lock.held(tmp_path / ".run.pt.lock", Path("run")), pytest.raises(CheckpointError, match="run is at work"):
        train(options(tmp_path))
    assert (tmp_path / "run.pt").read_bytes() == before


def test_a_log_of_another_run_is_refused_and_left_as_it_is(tmp_path):
    train(options(tmp_path, checkpoint=None))
    for content in (None, b"my diary\n", b'{"step": 1}\n', b"[1]\n"):
        if content:
            (tmp_path / "log.jsonl").write_bytes(content)
        before = (tmp_path / "log.jsonl").read_bytes()
        said = "not a log of capstone.train" if content else "other settings"
        with pytest.raises(LogError, match=rf"log.jsonl: .*{said}.*name another file"):
            train(options(tmp_path, checkpoint=None, seed=6))
        assert (tmp_path / "log.jsonl").read_bytes() == before
    with pytest.raises(LogError, match="could not be written"):
        train(options(tmp_path, log=tmp_path / "no/such/log"))


def test_two_runs_do_not_share_a_log(tmp_path):
    asked = options(tmp_path)
    with TrainingLog(asked.log, asked.run("grammar"), 0, {}) as log:
        with pytest.raises(CheckpointError, match=r"log.jsonl: another run is at work on it.*name another file"):
            train(replace(asked, checkpoint=tmp_path / "another.pt"))
        assert log.path.read_bytes().count(b"\n") == 1
    assert train(replace(asked, checkpoint=tmp_path / "another.pt")).steps[-1].step == 12
    assert not [*tmp_path.glob(".*.lock")]


def test_a_disk_that_fills_up_is_told(tmp_path):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(LogError, match=r"log.jsonl: the log could not be written \(File too large\). Make room"):
            train(options(tmp_path, checkpoint=None))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    train(options(tmp_path, checkpoint=None))  # without a checkpoint it starts its log afresh
    once = told(tmp_path / "log.jsonl")
    train(options(tmp_path, checkpoint=None))
    assert told(tmp_path / "log.jsonl") == once and len(once) == 12 and froms(tmp_path / "log.jsonl") == [0]


@pytest.mark.parametrize("left", [b"", b'{"run": {"config": "ti'])
def test_a_log_that_was_killed_in_its_header_is_begun_again(left, tmp_path):
    (tmp_path / "log.jsonl").write_bytes(left)
    train(options(tmp_path))
    assert len(told(tmp_path / "log.jsonl")) == 12


@pytest.mark.parametrize("line", [b"", b'{"step": 8, "lo', b'{"step": 8, "loss": 1}\n{"step": 9}\n', b"{]\n"])
def test_what_a_log_says_past_the_checkpoint_is_cut_off(line, tmp_path, monkeypatch):
    interrupted(monkeypatch, options(tmp_path), after=7)
    with (tmp_path / "log.jsonl").open("ab") as file:
        file.write(line)
    train(options(tmp_path))
    assert [step for step, *_ in told(tmp_path / "log.jsonl")] == list(range(1, 13))


def test_a_loss_that_is_no_number_ends_the_run_with_the_last_good_checkpoint(tmp_path, monkeypatch):
    finite = loop.finite

    def spoilt(loss, step):
        return finite(loss * float("nan") if step == 8 else loss, step)

    monkeypatch.setattr("capstone.log.finite", spoilt)
    with pytest.raises(FloatingPointError, match="nan at step 8: lower the learning rate"):
        train(options(tmp_path))
    assert checkpoint.load(tmp_path / "run.pt", options(tmp_path).run("grammar"))["step"] == 5
