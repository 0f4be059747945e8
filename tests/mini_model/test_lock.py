"""The lock of a checkpoint: one run at a time, given back however a run ends."""

import fcntl
import os
import signal
import subprocess
import sys

import pytest

from mini_model import lock
from mini_model.checkpoint import CheckpointError

HOLDER = """
import sys, time
from pathlib import Path
from mini_model import lock
with lock.held(Path(sys.argv[1]), Path("run")):
    print(flush=True)
    time.sleep(3600)
"""


def test_a_killed_run_gives_it_back_and_a_living_one_is_named(tmp_path):
    file, checkpoint = tmp_path / ".run.lock", tmp_path / "run"
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(file)], stdout=subprocess.PIPE) as other:
        try:
            assert other.stdout.readline() == b"\n"
            with pytest.raises(CheckpointError, match=rf"run: another run is at work on it .process {other.pid} on"):
                lock.held(file, checkpoint).__enter__()
        finally:
            other.send_signal(signal.SIGKILL)
    assert file.exists(), "what a killed run leaves"
    with lock.held(file, checkpoint):
        assert f"process {os.getpid()} on" in file.read_text()
        with pytest.raises(CheckpointError, match=f"process {os.getpid()} on"):
            lock.held(file, checkpoint).__enter__()
    assert not file.exists()


def test_a_lock_that_its_holder_removes_in_the_meantime_is_none(tmp_path, monkeypatch):
    file, calls, flock = tmp_path / ".run.lock", [], fcntl.flock

    def removed_once(*arguments):
        if not calls:
            file.unlink()
        calls.append(flock(*arguments))

    monkeypatch.setattr(fcntl, "flock", removed_once)
    with lock.held(file, tmp_path):
        assert len(calls) == 2 and file.exists()
