"""The repository's address stands in one place, and one command changes it everywhere."""

import importlib.util
import shutil
import sys
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).resolve().parents[1]
NEW = "https://github.com/some-owner/another.book"
NOTEBOOKS = sorted(ROOT.glob("notebooks/*.ipynb"))

spec = importlib.util.spec_from_file_location("repository", ROOT / "book/tools/repository.py")
repository = importlib.util.module_from_spec(spec)
spec.loader.exec_module(repository)


def setup_cells(path):
    cells = nbformat.read(path, as_version=4).cells
    return [cell.source for cell in cells if "setup" in cell.metadata.get("tags", [])]


@pytest.fixture
def copy(tmp_path):
    """The files that name the repository, alone."""
    for path in (*(ROOT / name for name in (*repository.TEXTS, "pyproject.toml")), *NOTEBOOKS):
        place = tmp_path / path.relative_to(ROOT)
        place.parent.mkdir(exist_ok=True)
        shutil.copy(path, place)
    return tmp_path


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_has_the_one_setup_cell(path):
    assert setup_cells(path) == [repository.setup_cell(repository.current(), repository.archive())]
    first_code = next(cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code")
    assert "setup" in first_code.metadata.get("tags", [])


def test_moving_reaches_every_place_and_back_changes_nothing(copy):
    before = {path: path.read_text("utf-8") for path in copy.rglob("*.*") if path.is_file()}
    url = repository.current(copy)
    named = {path for path, text in before.items() if any(each in text for each in repository.spellings(url))}
    changed = repository.move(copy, NEW)
    expected = {copy / path.relative_to(ROOT) for path in NOTEBOOKS} | named
    assert set(changed) == expected
    assert repository.current(copy) == NEW
    for path in before:
        assert not any(address in path.read_text("utf-8") for address in repository.spellings(url)), path.name
    for path in copy.glob("notebooks/*.ipynb"):
        assert setup_cells(path) == [repository.setup_cell(NEW, repository.archive(copy))]
    repository.move(copy, url)
    assert {path: path.read_text("utf-8") for path in before} == before


@pytest.fixture
def elsewhere(monkeypatch, tmp_path):
    """A notebook's folder without packages beside it, and a Python that has none of the book's either."""
    (tmp_path / "notebooks").mkdir()
    monkeypatch.chdir(tmp_path / "notebooks")
    monkeypatch.setattr("sys.path", [])
    return tmp_path


@pytest.fixture
def run_setup(monkeypatch):
    """``run_setup(pip)``: runs the cell where ``pip(command)`` stands for the program."""

    def run(pip):
        monkeypatch.setattr("subprocess.run", lambda command, check: pip(command))
        exec(repository.setup_cell(NEW), {})

    return run


def test_the_setup_cell_takes_a_clone_before_an_installation(elsewhere, run_setup):
    (elsewhere / "compile_lab").mkdir()
    run_setup(pytest.fail)
    assert sys.path == [str(elsewhere)]


def test_the_setup_cell_installs_the_book_alone_and_says_so(elsewhere, run_setup, monkeypatch, capsys):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    run_setup(lambda command: print(*command[1:]))
    first, pip, last = capsys.readouterr().out.splitlines()
    assert first.startswith("Installing") and last.startswith("Installed")
    assert pip == f"-m pip install -q --no-deps typeguard {NEW}/archive/main.zip"
