"""What students hand in is run anew, and each exercise gets its mark; solutions give none."""

import doctest
import sys

import grade
import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

SHOWS = """
class Shown:
    def __init__(self, words): self.words = words
    def __repr__(self): return self.words
"""


def handed_in(tmp_path, *cells):
    notebook = new_notebook(cells=[new_code_cell(SHOWS)])
    for tag, source in cells:
        notebook.cells.append(new_code_cell(source, metadata={"tags": [tag]}))
    nbformat.write(notebook, tmp_path / "one.ipynb")
    return tmp_path / "one.ipynb"


def test_its_example():
    assert doctest.testmod(grade).attempted and not doctest.testmod(grade).failed


@pytest.mark.processes
def test_a_notebook_runs_anew_as_far_as_it_goes_and_stays_as_it_is(tmp_path, monkeypatch, capsys):
    path = handed_in(
        tmp_path,
        ("exercise-01.1", "Shown('✓ 01.1: right.')"),
        ("solution-01.2", "Shown('✓ 01.2: right.')"),
        ("exercise-01.2", "Shown('✗ 01.2: the graph still breaks.')"),
        ("exercise-01.3", "1 / 0"),
        ("exercise-01.4", "Shown('○ 01.4: no answer yet.')"),
        ("exercise-01.5", "import os; os._exit(1)"),
        ("exercise-01.6", "Shown('✓ 01.6: right.')"),
    )
    notebook = nbformat.read(path, as_version=4)
    notebook.cells[-1].outputs = [nbformat.v4.new_output("execute_result", {"text/plain": "✓ 01.6: right."})]
    nbformat.write(notebook, path)  # what is stored counts for nothing
    before = path.read_bytes()
    monkeypatch.setattr(sys, "argv", ["grade.py", str(path)])
    grade.main()
    shown = capsys.readouterr()
    marks = [line.split(",")[1:3] for line in shown.out.splitlines()[1:]]
    assert marks == [["01.1", "✓"], ["01.2", "✗"], ["01.3", "!"], ["01.4", "○"], ["01.5", "!"], ["01.6", "!"]]
    assert "what comes after did not run" in shown.err and path.read_bytes() == before


def test_a_file_that_is_not_there_is_named(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["grade.py", "nowhere.ipynb"])
    with pytest.raises(SystemExit):
        grade.main()
    assert "nowhere.ipynb is not there" in capsys.readouterr().err
