"""What the run as a whole does when a test takes its process with it, and with what failed."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
KILLS = "import os, signal\n    if 'PYTEST_XDIST_WORKER' in os.environ: os.kill(os.getpid(), signal.SIGKILL)"

pytestmark = pytest.mark.processes


def run(folder, *arguments, workers=2, **bodies):
    """Status and output of a run: a file for each name, a test for each letter, where K kills a worker."""
    shutil.copy(ROOT / "conftest.py", folder)
    (folder / "pytest.ini").write_text("[pytest]\n")
    for name, body in bodies.items():
        tests = (
            f"def test_{at}():\n    {KILLS if kind == 'K' else 'assert ' + kind}\n" for at, kind in enumerate(body)
        )
        (folder / f"test_{name}.py").write_text("\n".join(tests))
    mine = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    mine |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "xdist.plugin,nbval.plugin"}
    command = [sys.executable, "-m", "pytest", f"-n{workers}", "--dist=loadscope", "--no-loadscope-reorder", *arguments]
    done = subprocess.run(command, cwd=folder, env=mine, capture_output=True, text=True, timeout=300)
    return done.returncode, done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    "bodies",
    [
        pytest.param({"a": "1111", "b": "1K11", "c": "1111"}, marks=pytest.mark.matrix),
        {"a": "11", "b": "1", "c": "1", "d": "1", "e": "1", "f": "1K"},  # as the last, with nothing left to hand out
        pytest.param({"a": "K", "b": "1", "c": "K1", "d": "1"}, marks=pytest.mark.matrix),
    ],
    ids=lambda bodies: " ".join(bodies.values()),
)
def test_a_test_that_ends_its_worker_fails_and_the_others_run(tmp_path, bodies):
    status, printed = run(tmp_path, **bodies)
    crashes, others = (sum(body.count(kind) for body in bodies.values()) for kind in "K1")
    assert f"{crashes} failed, {others} passed" in printed and status == 1
    assert printed.count("FAILED test_") == crashes


def test_what_passes_alone_does_not_fail_the_run_and_is_named(tmp_path):
    status, printed = run(tmp_path, "--once-more", a="111", b="1K1")
    assert status == 0 and "passed only alone: 1" in printed and "test_b.py::test_1" in printed


@pytest.mark.slow
def test_what_failed_runs_once_more_and_no_worker_does_the_same_on_its_own(tmp_path):
    status, _ = run(tmp_path, "--once-more", a="1", b=["open('runs', 'a').write('.') and 0"])
    assert status == 1 and (tmp_path / "runs").read_text() == ".."


@pytest.mark.slow
def test_what_fails_twice_fails_the_run(tmp_path):
    status, printed = run(tmp_path, "--once-more", a="1K1", b="101")
    assert status == 1 and "failed twice: test_b.py" in printed and "passed only alone: 1" in printed


def test_many_failures_are_no_accident(tmp_path):
    status, printed = run(tmp_path, "--once-more", "--tb=no", workers=0, **dict.fromkeys("abcdef", "0"))
    assert status == 1 and "6 files failed: that is no accident" in printed
