"""What the rings prove of a chapter: its stored outputs are those of its code, and its cells run twice in a row.

The second is for `make test-all`. nbval and notebooks/conftest.py prove it for every notebook. Here both are shown to
find what is wrong with one.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from compile_lab.page.explore import PUBLISH

pytestmark = pytest.mark.processes

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def validated(tmp_path):
    """The lines in which nbval, with the book's own settings, names the cells of a notebook that fail."""
    chapter = tmp_path / "notebooks/chapter.ipynb"
    chapter.parent.mkdir()
    for each in ("conftest.py", "notebooks/conftest.py"):
        shutil.copy(ROOT / each, tmp_path / each)
    environment = {name: value for name, value in os.environ.items() if name != PUBLISH}

    def run(notebook, *options):
        nbformat.write(notebook, chapter)
        settings = ["-c", "pyproject.toml", "-p", "no:cacheprovider", "-p", "no:xdist", "--color=no"]
        command = [
            sys.executable,
            "-m",
            "pytest",
            "--nbval",
            "-q",
            *settings,
            str(chapter),
            *options,
        ]
        ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
        assert ran.returncode in (0, 1), ran.stdout
        return re.findall(r"^FAILED .*::(.*?) - ", ran.stdout, re.MULTILINE)

    return run


def notebook(*sources):
    cells = [nbformat.v4.new_code_cell(source, execution_count=at) for at, source in enumerate(sources, 1)]
    return nbformat.v4.new_notebook(cells=cells)


def test_an_output_altered_by_hand_is_found(validated):
    chapter = nbformat.read(ROOT / "notebooks/13_overlap.ipynb", as_version=4)
    shown = [(at, cell.metadata.get("tags", [])) for at, cell in enumerate(chapter.cells) if cell.get("outputs")]
    at = next(at for at, tags in shown if "nbval-ignore-output" not in tags)
    chapter.cells = chapter.cells[: at + 1]
    chapter.cells[at].outputs[-1]["data"]["text/plain"] += " altered"
    number = sum(cell.cell_type == "code" for cell in chapter.cells) - 1
    assert validated(chapter) == [f"Cell {number}"]


@pytest.mark.slow
def test_a_cell_that_runs_only_once_in_a_kernel_is_found_in_the_ring_of_everything(validated):
    once = notebook("x = 1", "assert 'made' not in globals()\nmade = True", "y = 2")
    assert validated(once) == [] and validated(once, "--ring=all") == ["Cell 1 again"]


def test_the_page_is_compared_and_the_second_time_is_live(validated):
    first_time_only = "import os\nassert ('seen' in globals()) != ('COMPILE_LAB_PUBLISH' in os.environ)\nseen = True"
    assert validated(notebook(first_time_only), "--ring=all") == []


def test_make_test_and_what_calls_it_compare_strictly():
    settings, command = (ROOT / "pyproject.toml").read_text(), (ROOT / "Makefile").read_text()
    assert "pytest --nbval " in command and "--nbval-lax" not in settings + command
