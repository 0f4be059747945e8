"""A machine that lacks something is told so in one line, before anything is installed."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MAKE = shutil.which("make")

pytestmark = pytest.mark.skipif(MAKE is None, reason="no make on this machine")


def check(tmp_path, python=sys.executable, with_compiler=False):
    tools = tmp_path / "bin"
    tools.mkdir()
    if with_compiler:
        (tools / "g++").write_text("#!/bin/sh\n")
        (tools / "g++").chmod(0o755)
    command = [MAKE, "-C", str(ROOT), "--no-print-directory", "check", f"PYTHON={python}"]
    return subprocess.run(command, env={"PATH": str(tools)}, capture_output=True, text=True)


def test_python_and_a_compiler_are_enough(tmp_path):
    assert check(tmp_path, with_compiler=True).returncode == 0


@pytest.mark.parametrize("python", ["no-such-python", shutil.which("true")])  # one that does not say that it fits
def test_a_missing_or_old_python_is_named_with_the_remedy(tmp_path, python):
    told = check(tmp_path, python, with_compiler=True)
    assert told.returncode == 2 and told.stderr.count("\n") == 1
    assert f"'{python}' is none of them" in told.stderr and "make PYTHON=" in told.stderr


def test_an_unknown_way_to_build_is_named_with_the_known_one():
    command = [MAKE, "-C", str(ROOT), "--no-print-directory", "-n", "book", "SPHINX=html"]
    refused = subprocess.run(command, capture_output=True, text=True)
    assert refused.returncode == 2 and "SPHINX is 'html'" in refused.stderr and "SPHINX=plain" in refused.stderr


def test_a_missing_compiler_is_named_with_the_remedy(tmp_path):
    told = check(tmp_path)
    assert told.returncode == 2 and told.stderr.count("\n") == 1 and "Install g++" in told.stderr
