"""A training that is killed or stopped loses nothing but an interval, and goes on to the same end, to the bit."""

import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from capstone.log import LogError, TrainingLog, read_log
from capstone.options import TrainingOptions
from capstone.train import main, train
from mini_model import checkpoint, lock, loop, stops
from mini_model.checkpoint import CheckpointError
from mini_model.model import CONFIGS, GPTConfig

pytestmark = pytest.mark.processes

TINY = GPTConfig(vocabulary=600, context=16, dim=16, layers=2, heads=2, tied_head=True)


@pytest.fixture(autouse=True)
def tiny(monkeypatch):
    monkeypatch.setitem(CONFIGS, "tiny", TINY)


def options(folder: Path, **more) -> TrainingOptions:
    files = {"checkpoint": folder / "run.pt", "log": folder / "log.jsonl", "every": 5}
    return TrainingOptions(**{"config": "tiny", "steps": 12, "batch": 4, "lr": 1e-2, "seed": 5} | files | more)


def told(path: Path) -> list[tuple]:
    """What a log says of its steps, save for their speed."""
    return [(step.step, step.loss, step.lr, step.gradient_norm) for step in read_log(path)[1]]


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
    assert checkpoint.load(asked.checkpoint, whole_run(asked))["step"] == stop

    said = []
    continued = train(asked, said.append)
    assert said == [f"continuing from {asked.checkpoint} at step {stop} of 12"]
    assert continued.first == stop and continued.losses == whole.losses[stop:]
    assert told(asked.log) == told(tmp_path / "whole/log.jsonl") and froms(asked.log) == [0, stop]
    assert continued.validation_loss == whole.validation_loss
    assert all(map(torch.equal, continued.model.parameters(), whole.model.parameters()))


def whole_run(asked: TrainingOptions) -> dict:
    return asked.run("grammar")


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_command_saves_its_step_at_each_signal_that_asks_to_stop_and_says_how_to_go_on(
    number, tmp_path, monkeypatch, capsys
):
    add, before = TrainingLog.add, [signal.getsignal(each) for each in stops.ASKS]

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
    assert [signal.getsignal(each) for each in stops.ASKS] == [signal.SIG_DFL] * 3  # a second one ends it at once
    for each, handler in zip(stops.ASKS, before, strict=True):
        signal.signal(each, handler)
    assert main([*words, "--checkpoint", f"{tmp_path}/run.pt"]) == 0
    shown = capsys.readouterr()
    assert "continuing from" in shown.err and shown.out.startswith("validation loss")


def test_a_second_control_c_does_not_wait(tmp_path, monkeypatch):
    interrupted(monkeypatch, options(tmp_path), after=7, signals=2)
    assert checkpoint.load(tmp_path / "run.pt", whole_run(options(tmp_path)))["step"] == 5


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
    with (
        lock.held(tmp_path / ".run.pt.lock", Path("run")),
        pytest.raises(CheckpointError, match="another run is at work"),
    ):
        train(options(tmp_path))
    assert (tmp_path / "run.pt").read_bytes() == before


def test_a_log_of_another_run_is_refused_and_left_as_it_is(tmp_path):
    train(options(tmp_path, checkpoint=None))
    for content in (None, b"my diary\n", b'{"step": 1}\n', b"[1]\n"):
        if content:
            (tmp_path / "log.jsonl").write_bytes(content)
        before = (tmp_path / "log.jsonl").read_bytes()
        with pytest.raises(
            LogError, match=r"log.jsonl: .*(other settings|not a log of capstone.train).*name another file"
        ):
            train(options(tmp_path, checkpoint=None, seed=6))
        assert (tmp_path / "log.jsonl").read_bytes() == before
    with pytest.raises(LogError, match="could not be written"):
        train(options(tmp_path, log=tmp_path / "no/such/log"))


def test_what_is_no_regular_file_is_no_log(tmp_path):
    """A device would be read for ever, a pipe waited for, and a folder cannot be written."""
    os.mkfifo(tmp_path / "pipe")
    for path in (Path("/dev/zero"), Path("/dev/full"), tmp_path / "pipe", tmp_path):
        with pytest.raises(LogError, match=f"{path}: not a regular file, so not a log. "):
            train(options(tmp_path, checkpoint=None, log=path))
        with pytest.raises(LogError, match=r"not a regular file, so not a log\. Name the --log file"):
            read_log(path)


def test_a_large_file_that_is_no_log_is_refused_without_reading_it(tmp_path):
    with (tmp_path / "log.jsonl").open("wb") as file:
        file.truncate(10**10)  # 10 GB of zeros without a line's end, which take no room on the disk
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(LogError, match=r"not a log of capstone\.train"):
        train(options(tmp_path, checkpoint=None))
    with pytest.raises(LogError, match=r"not a log of capstone\.train"):
        read_log(tmp_path / "log.jsonl")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000


def test_two_runs_do_not_share_a_log(tmp_path):
    asked = options(tmp_path)
    with TrainingLog(asked.log, whole_run(asked), 0, {}) as log:
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
    train(options(tmp_path, checkpoint=None))
    assert len(told(tmp_path / "log.jsonl")) == 12


def test_the_same_run_without_a_checkpoint_starts_its_log_afresh(tmp_path):
    train(options(tmp_path, checkpoint=None))
    once = told(tmp_path / "log.jsonl")
    train(options(tmp_path, checkpoint=None))
    assert told(tmp_path / "log.jsonl") == once and froms(tmp_path / "log.jsonl") == [0]


@pytest.mark.parametrize("left", [b"", b'{"ru', b'{"run": {"config": "ti'])
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
    assert checkpoint.load(tmp_path / "run.pt", whole_run(options(tmp_path)))["step"] == 5


KILLABLE = """
import itertools, os, signal, sys
from pathlib import Path
from capstone import train
from capstone.log import TrainingLog
from mini_model.model import CONFIGS, GPTConfig
CONFIGS["tiny"] = GPTConfig(vocabulary=600, context=16, dim=16, layers=2, heads=2, tied_head=True)

def dies(owner, name, nth, before=None):
    original, calls = getattr(owner, name), itertools.count(1)
    def called(*arguments):
        mine = next(calls) == nth
        if mine and before:
            before(*arguments)
            os.kill(os.getpid(), signal.SIGKILL)
        found = original(*arguments)
        if mine:
            os.kill(os.getpid(), signal.SIGKILL)
        return found
    setattr(owner, name, called)

def torn(log, steps):
    log.file.write(b'{"step": 9, "lo')
    log.file.flush()

def nothing(*_):
    pass

MOMENTS = {
    "a line of the log is half written": lambda nth: dies(TrainingLog, "add", nth, torn),
    "a line of the log is there": lambda nth: dies(TrainingLog, "add", nth),
    "the checkpoint is written, and not yet in place": lambda nth: dies(Path, "replace", nth, nothing),
    "the checkpoint is in place": lambda nth: dies(Path, "replace", nth),
    "the log is cut": lambda nth: dies(TrainingLog, "_write", nth, nothing),
    "none": lambda nth: None,
}
while line := sys.stdin.readline().strip():
    moment, nth, options = line.split("|")
    if not (child := os.fork()):
        MOMENTS[moment](int(nth))
        os._exit(train.main(options.split()))
    os.write(1, b"is %d\\n" % child)
    sys.stdin.readline()
    os.write(1, b"ended %d\\n" % os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
MOMENTS = [
    ("a line of the log is half written", 1),
    ("the checkpoint is written, and not yet in place", 1),
    ("a line of the log is there", 5),
    ("the checkpoint is in place", 2),
    ("the checkpoint is written, and not yet in place", 2),
    ("the log is cut", 1),
    ("a line of the log is half written", 8),
    ("a line of the log is there", 4),
    ("the checkpoint is in place", 1),
]


@pytest.mark.slow
def test_killed_at_many_moments_it_loses_at_most_one_interval(tmp_path):
    """Of mini_model.train, too, whose loop and checkpoint these are."""
    seed = int(os.environ.get("KILLS_SEED", time.time_ns() % 1_000_000))
    print(f"KILLS_SEED={seed}")
    chance, every, steps = random.Random(seed), 4, 400
    settings = options(tmp_path, steps=steps, batch=2).run("grammar")
    runs = subprocess.Popen(
        [sys.executable, "-c", KILLABLE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )

    def run(folder: Path, moment: str = "none", nth: int = 0, seconds: float | None = None) -> int:
        words = f"--config tiny --steps {steps} --batch 2 --lr 0.01 --seed 5 --every {every} --device cpu"
        print(
            f"{moment}|{nth}|{words} --checkpoint {folder}/run.pt --log {folder}/log.jsonl", file=runs.stdin, flush=True
        )
        pid = int(runs.stdout.readline().removeprefix("is "))
        if seconds is not None:
            time.sleep(seconds)
            os.kill(pid, signal.SIGKILL)
        print(file=runs.stdin, flush=True)
        while not (line := runs.stdout.readline()).startswith("ended "):  # lines of the report
            assert line, "the parent is gone"
        return int(line.removeprefix("ended "))

    whole, killed = tmp_path / "whole", tmp_path / "killed"
    whole.mkdir(), killed.mkdir()
    with runs:
        assert run(whole) == 0
        kills, reached = 0, 0
        plan = MOMENTS + [("none", 0)] * 6
        for moment, nth in plan:
            ended = run(killed, moment, nth, None if nth else chance.uniform(0, 0.5))
            assert ended == -signal.SIGKILL or not nth, f"{moment}, the {nth}th"
            at = (checkpoint.load(killed / "run.pt", settings) or {"step": 0})["step"]
            done = max([0, *(step for step, *_ in told_so_far(killed / "log.jsonl"))])
            assert at >= reached and done - at <= every, f"{moment}: {done} steps were done, {at} are kept"
            kills, reached = kills + (ended == -signal.SIGKILL), at
        assert 0 < reached < steps and kills >= len(MOMENTS) + 3, "the kills came too early, or too late"
        assert run(killed) == 0
        runs.stdin.close()
    assert told(killed / "log.jsonl") == told(whole / "log.jsonl") and len(told(killed / "log.jsonl")) == steps
    ours, theirs = (checkpoint.load(folder / "run.pt", settings) for folder in (killed, whole))
    assert all(torch.equal(ours["model"][name], theirs["model"][name]) for name in theirs["model"])
    for at, kept in theirs["optimizer"]["state"].items():
        assert all(torch.equal(ours["optimizer"]["state"][at][name], each) for name, each in kept.items())
    assert sorted(path.name for path in killed.iterdir()) == ["log.jsonl", "run.pt"]


def told_so_far(path: Path) -> list[tuple]:
    return told(path) if path.exists() and b"\n" in path.read_bytes() else []
