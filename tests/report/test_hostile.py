"""Whatever a model does to the process that it runs in, the caller gets a whole page, or status 2 and a message."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hostile import EITHER, HOSTILE, PAGE, Hostile

from compile_lab.report.supervisor import LOST

pytestmark = pytest.mark.processes

EARLIER = "an earlier report\n"
ROOT = Path(__file__).parents[2]
REPORT = [sys.executable, "-m", "compile_lab.report", "hostile.py:make"]


def laid_out(folder, case):
    """The folder of a run: the model, an earlier report, and where the case speaks of it, a folder for the report."""
    folder.mkdir()
    (folder / "hostile.py").write_text(case.source)
    pages = folder / "pages" if "'pages'" in case.source else folder
    pages.mkdir(exist_ok=True)
    (pages / "out.html").write_text(EARLIER)
    return folder


@pytest.fixture(scope="module")
def ran(request, tmp_path_factory):
    """The folders of all cases that are asked for, once each of them has run."""
    root = tmp_path_factory.mktemp("hostile")
    here = [each for each in request.session.items if each.path == request.path and "ran" in each.fixturenames]
    wanted = [each.callspec.params["name"] for each in here]
    folders = {name: f"case_{number}" for number, name in enumerate(wanted)}
    for name, folder in folders.items():
        laid_out(root / folder, HOSTILE[name])
    (root / "cases.json").write_text(json.dumps([[folder, name] for name, folder in folders.items()]))
    runner = Path(__file__).with_name("hostile_runs.py")
    done = subprocess.run([sys.executable, runner, root], capture_output=True, text=True, cwd=ROOT, timeout=900)
    assert done.returncode == 0, done.stderr
    return {name: root / folder for name, folder in folders.items()}


CASES = [name if at % 7 == 0 else pytest.param(name, marks=pytest.mark.matrix) for at, name in enumerate(HOSTILE)]


@pytest.mark.parametrize("name", CASES)
def test_a_whole_page_or_status_2_with_what_happened_where_and_the_way_out(ran, name):
    case, folder = HOSTILE[name], ran[name]
    said, result = (folder / "stderr").read_text(), json.loads((folder / "result.json").read_text())
    assert result["status"] == case.status if case.status is not EITHER else result["status"] in (0, 2), said
    assert result["left"] == [] and {*result["threads"]} <= {"_MainThread", "TMonitor"}  # the bar has a thread, too
    assert "Traceback" not in said and len(said) < 100_000 and "\x1b" not in said
    assert not [*folder.rglob("*.part")]
    assert not any(file.stat().st_size for file in folder.glob("mine.*"))
    page = folder / "out.html"
    if result["status"] == PAGE:
        assert page.read_text().startswith("<!doctype html>") and page.read_text().rstrip().endswith("</html>")
        assert "out.html, " in (folder / "stdout").read_text()
    else:
        last = said.strip().splitlines()[-1]
        assert last.startswith("compile_lab.report: ") and len(last) < 1000
        assert re.search(case.said, last), last
        assert (folder / "stdout").read_text() == ""
        if page.is_file():
            assert page.read_text() == EARLIER


def started(folder, source):
    """The command as a reader starts it, at once: its code says when it runs, starts another process, and stays."""
    laid_out(folder, Hostile(source))
    return subprocess.Popen(
        [*REPORT, "-o", "out.html", "--limit-s", "3600"],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        text=True,
    )


STAYS = "other = subprocess.Popen(['sleep', '300'], start_new_session=True)\n" + (
    "open('begun', 'w').write(f'{os.getpid()} {other.pid}')\ntime.sleep(3600)"
)


@pytest.mark.slow
def test_a_command_that_is_stopped_says_so_and_leaves_nothing(tmp_path, alive):
    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL)
    runs = {number: started(tmp_path / number.name, STAYS) for number in signals}
    begun = {number: tmp_path / number.name / "begun" for number in signals}
    until = time.monotonic() + 300
    while not all(each.exists() and each.read_text() for each in begun.values()):
        assert time.monotonic() < until
        time.sleep(0.1)
    for number, run in runs.items():
        run.send_signal(number)
        said = run.communicate(timeout=300)[1]
        worker, other = map(int, begun[number].read_text().split())
        if number == signal.SIGKILL:
            assert run.returncode == -9 and alive([worker]) == []
            os.kill(other, signal.SIGKILL)  # in a session of its own, and nobody is there to look for it
        else:
            assert run.returncode == 128 + number and alive([worker, other]) == []
            assert said.strip().splitlines()[-1].startswith(f"compile_lab.report: stopped by {number.name}")
            assert "Traceback" not in said
        assert (tmp_path / number.name / "out.html").read_text() == EARLIER


def test_the_command_itself_imports_no_torch():
    program = "import sys, compile_lab.report.__main__; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], cwd=ROOT).returncode == 0


CLOSES_FIRST = """
import os, threading, time
from compile_lab.report import worker

class Late(threading.Thread):
    def start(self):
        os.close(channel.pipe)
        super().start()

channel, threading.Thread = worker.Channel(os.dup(1)), Late
worker._end_with_the_supervisor(channel)
time.sleep(3600)
"""


def test_a_pipe_that_is_closed_before_it_is_watched_is_told_as_a_closed_pipe():
    done = subprocess.run(
        [sys.executable, "-c", CLOSES_FIRST], cwd=ROOT, stdout=subprocess.PIPE, start_new_session=True, timeout=300
    )
    assert done.returncode == LOST
