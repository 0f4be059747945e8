"""A training that is killed at any moment loses at most one interval, and goes on to the same end, to the bit."""

import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import asdict

import killable
import pytest
import torch

from capstone.options import TrainingOptions
from mini_model import checkpoint
from mini_model.loop import Settings
from mini_model.model import CONFIGS

EVERY, STEPS = 4, 400
OF_THE_LOG = [  # before each, the run goes on from what the last one left
    ("a line of the log is half written", 1),
    ("a line of the log is there", 5),
    ("the log is cut", 1),
    ("a line of the log is half written", 8),
    ("a line of the log is there", 4),
]
OF_THE_CHECKPOINT = [
    ("the checkpoint is written, and not yet in place", 1),
    ("the checkpoint is in place", 2),
    ("the checkpoint is written, and not yet in place", 2),
    ("the checkpoint is in place", 1),
]
PLANS = {
    "mini_model": OF_THE_CHECKPOINT + [("none", 0)] * 12,
    "capstone": OF_THE_LOG[:1] + OF_THE_CHECKPOINT + OF_THE_LOG[1:] + [("none", 0)] * 6,
}


def words(program, folder):
    log = f" --log-file {folder}/log.jsonl" if program == "capstone" else ""
    return (
        f"--config tiny --steps {STEPS} --batch 2 --lr 0.01 --seed 5 --every {EVERY} --device cpu"
        f" --checkpoint {folder}/run.pt{log}"
    )


@pytest.mark.slow
@pytest.mark.parametrize("program", PLANS)
def test_killed_at_many_moments_it_loses_at_most_one_interval(program, tmp_path, monkeypatch):
    seed = int(os.environ.get("KILLS_SEED", time.time_ns() % 1_000_000))
    print(f"KILLS_SEED={seed}")
    chance = random.Random(seed)
    monkeypatch.setitem(CONFIGS, "tiny", killable.TINY)
    shape = {"config": "tiny", "steps": STEPS, "batch": 2, "lr": 0.01, "seed": 5}
    settings = asdict(Settings(**shape)) if program == "mini_model" else TrainingOptions(**shape).run("grammar")
    runs = subprocess.Popen(
        [sys.executable, killable.__file__, program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
    )

    def run(folder, moment="none", nth=0, seconds=None):
        """How a run ended, and which step was the last that it began."""
        print(f"{moment}|{nth}|{words(program, folder)}", file=runs.stdin, flush=True)
        pid, started = int(runs.stdout.readline().removeprefix("is ")), 0
        if seconds is not None:
            time.sleep(seconds)
            os.kill(pid, signal.SIGKILL)
        print(file=runs.stdin, flush=True)
        while not (line := runs.stdout.readline()).startswith("ended "):
            assert line, "the parent is gone"
            started = int(line) if line.strip().isdecimal() else started  # or a line of the report
        return int(line.removeprefix("ended ")), started

    def saved(folder):
        return checkpoint.load(folder / "run.pt", settings) or {"step": 0}

    whole, killed = tmp_path / "whole", tmp_path / "killed"
    whole.mkdir(), killed.mkdir()
    with runs:
        assert run(whole) == (0, STEPS - 1)
        kills, reached = 0, 0
        for moment, nth in PLANS[program]:
            ended, started = run(killed, moment, nth, None if nth else chance.uniform(0, 0.4))
            assert ended == -signal.SIGKILL or not nth, f"{moment}, the {nth}th"
            at = saved(killed)["step"]
            # `started` steps were complete when step number `started` began.
            assert at >= max(reached, started - EVERY), f"{moment}: step {started} was begun, {at} are kept"
            kills, reached = kills + (ended == -signal.SIGKILL), at
        assert reached > 0 and kills >= sum(nth > 0 for _, nth in PLANS[program]) + 3
        assert run(killed)[0] == 0
        runs.stdin.close()
    assert_same_content(saved(killed), saved(whole))
    if program == "capstone":
        logged, wanted = (killable.told(folder / "log.jsonl") for folder in (killed, whole))
        assert logged == wanted and len(logged) == STEPS
    assert (
        {path.name for path in killed.iterdir()} == {path.name for path in whole.iterdir()} <= {"run.pt", "log.jsonl"}
    )


def assert_same_content(one, other):
    """Bit for bit, through all dictionaries."""
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            assert_same_content(one[key], other[key])
    else:
        assert torch.equal(one, other) if isinstance(one, torch.Tensor) else one == other
