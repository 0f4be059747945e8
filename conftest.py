"""What every `pytest` here understands and finds, and whatever it starts.

Three rings: `make quick`, `make test` and `make test-all` (``--ring``). A marker says what a test is too much for, and
so which ring has it. At the end of a run stands where the time went. Two runs share the cores: an OpenMP thread that
waits for its next loop sleeps, so that the other run's threads have its core. No number depends on it.
"""

import contextlib
import doctest
import inspect
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # read when torch is imported, which is later
os.environ.setdefault("TORCHINDUCTOR_VEC_ISA_OK", "1")  # believes the CPU; trial compilations take 4 s a new cache
if gold := shutil.which("ld.gold"):  # links a C++ kernel to torch in 0.15 s, and ld in 0.4 of its 1.2 s
    linker = Path(__file__).parent / "_build/linker"
    linker.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        (linker / "ld").symlink_to(gold)
    os.environ.setdefault("COMPILER_PATH", str(linker))  # where g++ looks for its linker first

LEFT_OUT = {"quick": {"processes", "browser", "slow", "matrix"}, "test": {"slow", "matrix"}, "all": set()}
"""The markers that each ring leaves out."""
BUDGET_S = {"notebooks": 45, "tests": 30}
"""Of one file, on an idle core with nothing compiled yet: what takes longer is named."""
SECOND_TRIES = 5


def pytest_addoption(parser):
    rings = parser.getgroup("rings")
    rings.addoption("--ring", choices=LEFT_OUT, default="test", help="how much runs: quick, test (the default) or all")
    rings.addoption(
        "--once-more",
        action="store_true",
        help=f"run the files of what failed, {SECOND_TRIES} at most, once more, alone; what fails twice fails",
    )


def pytest_collection_modifyitems(items, config):
    left_out = LEFT_OUT[config.getoption("--ring")]
    too_much = [item for item in items if any(mark.name in left_out for mark in item.iter_markers())]
    if too_much:
        config.hook.pytest_deselected(items=too_much)
        gone = set(map(id, too_much))
        items[:] = [item for item in items if id(item) not in gone]


@pytest.hookimpl(optionalhook=True)  # xdist may be off
def pytest_xdist_make_scheduler(config, log):
    """A test that ends its worker fails, by name, and all others run: with xdist 3.8.0 the run never ends (#1378)."""
    from xdist.scheduler import LoadScopeScheduling

    class Outlives(LoadScopeScheduling):
        def remove_node(self, node):
            """Whatever the worker had not begun goes back to the queue; the test that ended it does not."""
            units = self.assigned_work.pop(node).values()
            ended, *left = [test for unit in units for test, done in unit.items() if not done] or [None]
            for test in left:
                self.workqueue.setdefault(self._split_scope(test), {})[test] = False
            for other in self.nodes:
                self._reschedule(other)
            return ended

        def _reschedule(self, node):
            """A worker begins a test only when it has the one after it, or knows that there is none."""
            if node.shutting_down or node not in self.registered_collections:
                return
            while self.workqueue and self._pending_of(self.assigned_work[node]) <= 2:
                self._assign_work_unit(node)
            if not self.workqueue:
                node.shutdown()

    return Outlives(config, log) if config.getvalue("dist") == "loadscope" else None


@pytest.hookimpl(tryfirst=True)  # before the summary, which tells what came of it
def pytest_sessionfinish(session, exitstatus):
    """Under ``--once-more`` what failed gets its second chance, in the open: see the section "once more"."""
    config = session.config
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    mine = reporter and not hasattr(config, "workerinput")  # a worker has one, too, and saw its own tests alone
    if not (config.getoption("--once-more") and mine and exitstatus == pytest.ExitCode.TESTS_FAILED):
        return
    bad = [report.nodeid for kind in ("failed", "error") for report in reporter.stats.get(kind, [])]
    files = sorted({nodeid.partition("::")[0] for nodeid in bad})
    if len(files) > SECOND_TRIES:
        config.once_more = [f"{len(files)} files failed: that is no accident, and none was run again"]
        return
    failed_twice = [file for file in files if not _passes_alone(config, file)]
    alone = [nodeid for nodeid in bad if nodeid.partition("::")[0] not in failed_twice]
    config.once_more = [f"passed only alone: {len(alone)}", *alone]
    config.once_more += [f"failed twice: {file}" for file in failed_twice]
    if not failed_twice:
        session.exitstatus = pytest.ExitCode.OK


def _passes_alone(config, file):
    command = [sys.executable, "-m", "pytest", "--nbval", f"--ring={config.getoption('--ring')}", file]
    mine = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}  # reports of the first run
    return subprocess.run(command, cwd=config.rootpath, env=mine).returncode == 0


def pytest_terminal_summary(terminalreporter, config):
    spent = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if hasattr(report, "duration"):
                spent[report.nodeid.partition("::")[0]] += report.duration
    folders = Counter()
    for file, seconds in spent.items():
        folders["/".join(Path(file).parts[:-1][:2])] += seconds
    if len(spent) > 1:
        terminalreporter.section("where the time went")
        told = ", ".join(f"{folder} {seconds:.0f}" for folder, seconds in folders.most_common())
        terminalreporter.write_line(f"seconds of one worker: {told}")
        for file, seconds in spent.most_common():
            if seconds > (budget := BUDGET_S.get(Path(file).parts[0], seconds)):
                terminalreporter.write_line(f"over its budget of {budget} s: {file}, {seconds:.0f} s")
    if lines := getattr(config, "once_more", []):
        terminalreporter.section("once more")
        for line in lines:
            terminalreporter.write_line(line)


def _of_module(finder, module, found):
    """A door is a wrapper, which doctest would take for another module's."""
    return _from_module(finder, module, inspect.unwrap(found) if callable(found) else found)


_from_module, doctest.DocTestFinder._from_module = doctest.DocTestFinder._from_module, _of_module
