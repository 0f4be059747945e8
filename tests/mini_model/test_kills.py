"""A run of the training program that is killed at any moment loses at most one interval, and nothing else."""

import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

import pytest
import torch

from mini_model import checkpoint
from mini_model.loop import Settings
from mini_model.model import CONFIGS, GPTConfig

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def tiny(monkeypatch):
    monkeypatch.setitem(CONFIGS, "tiny", GPTConfig(vocabulary=600, context=16, dim=16, layers=1, heads=2))


ANNOUNCED = """
import os, sys
from mini_model import loop, train
from mini_model.model import CONFIGS, GPTConfig
CONFIGS["tiny"] = GPTConfig(vocabulary=600, context=16, dim=16, layers=2, heads=2)
rate = loop.learning_rate
def announced(settings, step):
    os.write(1, b"%d\\n" % step)
    return rate(settings, step)
loop.learning_rate = announced
"""
FORKING = (  # a line in, a run with these options; the next line, and its end is told: the slow imports are made once
    ANNOUNCED
    + """
while options := sys.stdin.readline().split():
    if not (child := os.fork()):
        os._exit(train.main(options))
    os.write(1, b"is %d\\n" % child)
    sys.stdin.readline()
    os.write(1, b"ended %d\\n" % os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
)


def test_killed_at_fifteen_random_moments_it_loses_at_most_one_interval(tmp_path):
    """The other five of twenty are those of many ranks, in parallel/test_train.py."""
    seed = int(os.environ.get("KILLS_SEED", time.time_ns() % 1_000_000))
    print(f"KILLS_SEED={seed}")
    file, whole, every, chance = tmp_path / "run.pt", tmp_path / "whole.pt", 3, random.Random(seed)
    settings = Settings("tiny", steps=600, batch=2)
    options = f"--config tiny --steps 600 --batch 2 --every {every} --device cpu --checkpoint"
    runs = subprocess.Popen(
        [sys.executable, "-c", FORKING],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )

    def run(path: Path, seconds: float | None) -> tuple[int, int]:
        """How a run ended that is killed after so many seconds, and which step was the last that it began."""
        print(options, path, file=runs.stdin, flush=True)
        pid, started = int(runs.stdout.readline().removeprefix("is ")), -1
        if seconds is not None:
            time.sleep(seconds)
            os.kill(pid, signal.SIGKILL)
        print(file=runs.stdin, flush=True)
        while not (line := runs.stdout.readline()).startswith("ended "):
            started = int(line) if line.strip().isdecimal() else started  # or a line of the report
        return int(line.removeprefix("ended ")), started

    def saved(path: Path) -> dict:
        return checkpoint.load(path, asdict(settings)) or {"step": 0}

    with runs:
        assert run(whole, None) == (0, 599)
        kills, reached = 0, 0
        while kills < 15:
            ended, started = run(file, chance.uniform(0, 0.4))
            at = saved(file)["step"]
            # `started` steps were complete when step number `started` began.
            assert at >= max(reached, started - every), f"kill {kills} at step {started} left {at}, after {reached}"
            kills, reached = kills + (ended == -signal.SIGKILL), at
            if ended == 0:  # a quick machine: once more from the start
                assert_same_content(saved(file), saved(whole))
                file.unlink()
                reached = 0
        assert run(file, None)[0] == 0
        runs.stdin.close()
    assert_same_content(saved(file), saved(whole))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run.pt", "whole.pt"]


def assert_same_content(one: object, other: object) -> None:
    """Bit for bit, through all dictionaries."""
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            assert_same_content(one[key], other[key])
    else:
        assert torch.equal(one, other) if isinstance(one, torch.Tensor) else one == other
