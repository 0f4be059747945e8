"""Storing outputs: whole or not at all, with provenance, and only for a notebook that ran to its end."""

import importlib.util
from pathlib import Path

import nbformat
import pytest
from nbclient.exceptions import CellExecutionError

pytestmark = pytest.mark.processes

ROOT = Path(__file__).resolve().parents[2]
spec = importlib.util.spec_from_file_location("execute", ROOT / "book/tools/execute.py")
execute = importlib.util.module_from_spec(spec)
spec.loader.exec_module(execute)


@pytest.fixture
def notebook(tmp_path):
    def write(*sources):
        cells = [nbformat.v4.new_code_cell(source, id=f"cell-{i}") for i, source in enumerate(sources)]
        path = tmp_path / "07_toy.ipynb"
        nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
        return path

    return write


def test_outputs_and_provenance_are_stored_without_times(notebook):
    path = notebook("import os\nprint(6 * 7)", "os.environ.get('COMPILE_LAB_PUBLISH')")
    seconds = execute.execute(path)
    stored = nbformat.read(path, as_version=4)
    assert stored.cells[0].outputs[0].text == "42\n"
    assert stored.cells[1].outputs[0].data["text/plain"] == "'1'"
    assert stored.metadata["compile_lab"]["seconds"] == round(seconds, 1)
    assert "execution" not in stored.cells[0].metadata and "widgets" not in stored.metadata


def test_what_a_cell_started_is_stored_below_it_whole_and_before_its_value(notebook):
    late = "import subprocess, threading, time\ndef late():\n    time.sleep(1)\n    subprocess.run(['seq', '50000'])"
    path = notebook(f"{late}\nthreading.Thread(target=late).start()", "subprocess.run(['seq', '50000'])\n'behind'")
    execute.execute(path)
    first, second = nbformat.read(path, as_version=4).cells
    numbers = "".join(f"{number}\n" for number in range(1, 50_001))
    assert [each.text for each in first.outputs] == [numbers] == [second.outputs[0].text]
    assert second.outputs[1].data["text/plain"] == "'behind'"


STOPS = {
    "error": ("1 / 0", CellExecutionError, "ZeroDivisionError"),
    "killed": ("import os; os.kill(os.getpid(), 9)", RuntimeError, "[Kk]ernel"),
    "runs only once": (
        "assert 'made' not in globals()\nmade = True",
        CellExecutionError,
        "assert 'made' not in globals",
    ),
}


@pytest.mark.parametrize(("source", "error", "words"), STOPS.values(), ids=STOPS)
def test_a_notebook_that_stops_the_first_or_the_second_time_is_left_as_it_was(notebook, source, error, words):
    path = notebook("print('first')", source)
    before = path.read_bytes()
    with pytest.raises(error, match=words):
        execute.execute(path)
    assert path.read_bytes() == before and [found.name for found in path.parent.iterdir()] == [path.name]


def test_the_second_time_is_live_and_what_is_stored_is_of_the_first(notebook):
    counts = "times = globals().get('times', 0) + 1"
    path = notebook(counts, "import os\nprint(times, 'COMPILE_LAB_PUBLISH' in os.environ)")
    execute.execute(path)
    stored = nbformat.read(path, as_version=4)
    assert [cell.execution_count for cell in stored.cells] == [1, 2]
    assert stored.cells[1].outputs[0].text == "1 True\n"
    assert stored.metadata["compile_lab"]["sources"] == execute.sources(stored)


def test_an_unknown_name_lists_what_there_is(notebook):
    path = notebook("1")
    assert execute.chosen(["07_toy.ipynb"], path.parent) == execute.chosen([], path.parent) == [path]
    with pytest.raises(SystemExit, match="no notebook '08_toy' in notebooks/; there are: 07_toy"):
        execute.chosen(["08_toy"], path.parent)
