"""Every file that a command takes: a regular one is read, anything else is refused by name, at once, and left alone."""

import contextlib
import io
import os
import pickle
import resource
import signal
import sys
from pathlib import Path

import pytest

from capstone import train as capstone
from chapters import record
from compile_lab.precision import bisect
from compile_lab.report import __main__ as report
from compile_lab.report import compare
from mini_model import train as mini

pytestmark = pytest.mark.processes

LIMIT_S, MOST_MB = 300, 200


class Executed:
    def __reduce__(self):
        return os.system, ("touch executed",)


def sparse(path):
    path.touch()
    os.truncate(path, 1 << 30)


def compared(path):
    """What the report's process does first."""
    try:
        compare.earlier(Path(path))
    except compare.UnusableModel as error:
        print(error, file=sys.stderr)
        return 2


def below_a_file(path):
    path.touch()
    return path / "given.py"


FILES = {
    "a folder": lambda path: path.mkdir(),
    "a pipe": os.mkfifo,
    "a device without an end": lambda path: path.symlink_to("/dev/zero"),
    "a device that is full": lambda path: path.symlink_to("/dev/full"),
    "a device that forgets": lambda path: path.symlink_to("/dev/null"),
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a link to nowhere": lambda path: path.symlink_to("no/such/file"),
    "zeros without an end": sparse,
    "bytes of no text": lambda path: path.write_bytes(bytes(range(255, 0, -1)) * 16),
    "brackets in brackets": lambda path: path.write_text("[" * 100_000),
    "a pickle that executes": lambda path: path.write_bytes(pickle.dumps(Executed())),
    "a place below a file": below_a_file,
    "a name too long": lambda path: path.with_name("n" * 300 + ".py"),
    "a name of two lines": lambda path: path.with_name("two\nlines.py"),
}
ONE_STEP = ("--steps", "1", "--batch", "2", "--config", "mini", "--device", "cpu")
ON_CPU = ("integer_powers", "--allow-cpu", "--out")
TEXT = {"zeros without an end", "bytes of no text", "brackets in brackets"}
"""Any bytes are a text."""
NOTHING = {"a link to nowhere", "a name of two lines"}
"""Where there is nothing yet, a file can be made, or a folder."""
GOOD = {
    "zeros without an end",
    "bytes of no text",
    "brackets in brackets",
    "a pickle that executes",
    "a name of two lines",
}
"""What may be written over, or is not there yet."""
COMMANDS = {
    "mini_model --checkpoint": (lambda path: mini.main([*ONE_STEP, "--checkpoint", path]), NOTHING),
    "capstone --checkpoint": (lambda path: capstone.main([*ONE_STEP, "--checkpoint", path]), NOTHING),
    "capstone --log-file": (lambda path: capstone.main([*ONE_STEP, "--log-file", path]), NOTHING),
    "capstone --text": (lambda path: capstone.main([*ONE_STEP, "--length", "32", "--text", path]), TEXT),
    "report": (lambda path: report.main([f"{path}:make"]), set()),
    "report -o": (lambda path: report.main(["model.py:make", "-o", path]), GOOD),
    "report --compare": (compared, set()),
    "bisect": (lambda path: bisect.main([f"{path}:f"]), set()),
    "record --out": (lambda path: record.main([*ON_CPU, path]), {"a folder", *NOTHING}),
    "record, listed": (lambda path: record.main(["--out", path]), {"a folder"}),
    "record --peer": (lambda path: record.main(["capstone", "--allow-cpu", "--out", ".", "--peer", path]), set()),
}
TAKES_A_PROCESS = {("report", "bytes of no text"), ("report", "brackets in brackets")}
CASES = [
    pytest.param(command, file, marks=[pytest.mark.matrix] * ((command, file) in TAKES_A_PROCESS))
    for command, (_, good) in COMMANDS.items()
    for file in FILES
    if file not in good
]


def too_late(*_):
    raise AssertionError(f"no word for {LIMIT_S} s")


@pytest.mark.parametrize("command, file", CASES)
def test_what_is_no_file_of_that_kind_is_refused_and_left_alone(command, file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "given"
    folder.mkdir()
    (tmp_path / "model.py").touch()
    path = folder / "given.py"
    made = FILES[file](path)
    path = made if isinstance(made, Path) else path
    before, said = state(folder), io.StringIO()
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    others = signal.signal(signal.SIGALRM, too_late)
    signal.alarm(LIMIT_S)
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
            try:
                status = COMMANDS[command][0](str(path))
            except SystemExit as ended:  # argparse's
                status = ended.code
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, others)
    assert status in (1, 2), said.getvalue()
    assert path.name.split("\n")[-1][:200] in said.getvalue(), "the file is named"
    assert state(folder) == before and not (tmp_path / "executed").exists()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - held < 1024 * MOST_MB


def state(folder):
    """What stands in a folder, and its bytes where they are few."""
    return {
        each.name: (each.lstat().st_mode, each.read_bytes() if each.is_file() and each.stat().st_size < 1 << 20 else 0)
        for each in folder.iterdir()
    }
