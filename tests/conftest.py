"""What every test finds as if it were the first: nothing compiled, and torch's settings as they were."""

import re
import signal
import subprocess
import sys
import time
from importlib import metadata

import pytest


def pytest_collection_modifyitems(items):
    """A test marked ``differs("2.15", what)`` has to fail from that torch on: what is no longer true is seen."""
    for item in items:
        for mark in item.iter_markers("differs"):
            since, what = mark.args
            if _release(metadata.version("torch")) >= _release(since):
                item.add_marker(pytest.mark.xfail(reason=f"torch {since}: {what}", strict=True))


def _release(version):
    return tuple(map(int, re.findall(r"\d+", version)[:2]))


@pytest.fixture(autouse=True, scope="session")
def a_hangup_is_heard():
    """Under ``nohup`` it is ignored, and so in whatever a test starts: a test that sends one would wait."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture(autouse=True)
def fresh_dynamo():
    """What earlier tests compiled is forgotten: at most 0.3 ms, and no import of torch for tests that need none."""
    if "torch._dynamo" in sys.modules:
        sys.modules["torch"].compiler.reset()


@pytest.fixture(autouse=True, scope="module")
def threads_stay_as_they_are():
    """Training's last digits depend on the number of threads: a module that changes it puts it back, or fails here."""
    torch = sys.modules.get("torch")
    before = torch and torch.get_num_threads()
    yield
    assert not torch or torch.get_num_threads() == before


class Clock:
    now = 0.0

    def perf_counter(self):
        return self.now

    def passes(self, seconds):
        self.now += seconds


@pytest.fixture
def clock(monkeypatch):
    """The clock of `compile_lab.measure.timing`, that ``clock.passes(seconds)`` moves, and nothing else."""
    monkeypatch.setattr("compile_lab.measure.timing.time", made := Clock())
    return made


@pytest.fixture
def alarm():
    """``alarm(seconds)``: what has not come to an end by then fails; ``alarm(0)`` or the test's end calls it off."""

    def hangs(*_):
        raise AssertionError("it does not end")

    before = signal.signal(signal.SIGALRM, hangs)
    yield signal.alarm
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def ranks_of():
    """``ranks_of(run)``: the process numbers of what a ``torchrun`` on two ranks has started, once there are two."""

    def started(run):
        while len(pids := subprocess.run(["pgrep", "-P", str(run.pid)], capture_output=True).stdout.split()) < 2:
            assert run.poll() is None
            time.sleep(0.1)
        return [*map(int, pids)]

    return started


@pytest.fixture
def alive():
    """``alive(pids, wait=300)``: those that still run when none is left, or after so many seconds.

    A process closes its files before it is gone, so who reads its output to the end may still find it.
    """

    def running(pid):
        state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True).stdout
        return state.strip() and "Z" not in state

    def left(pids, wait=300):
        ends = time.monotonic() + wait
        while (found := [*filter(running, pids)]) and time.monotonic() < ends:
            time.sleep(0.1)
        return found

    return left
