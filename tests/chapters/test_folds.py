"""What a reader sees of the code: every notebook's cells are marked as the rule says, and a mark can be taken away."""

import importlib.util
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted(ROOT.glob("notebooks/*.ipynb"))
spec = importlib.util.spec_from_file_location("folds", ROOT / "book/tools/folds.py")
folds = importlib.util.module_from_spec(spec)
spec.loader.exec_module(folds)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_cell_is_marked_as_the_rule_says(path):
    text = path.read_text("utf-8")
    marked = nbformat.writes(folds.marked(nbformat.read(path, as_version=4))) + "\n"
    assert marked == text, f"{path.name} is not marked: run .venv/bin/python book/tools/folds.py"


def test_marking_folds_for_all_three_readers_and_can_be_undone():
    cell = nbformat.v4.new_code_cell("x = 1", metadata={"tags": ["claim-C01"]})
    folds.mark(cell, in_sight=False)
    assert cell.metadata == {
        "tags": ["claim-C01", "hide-input"],
        "jupyter": {"source_hidden": True},
        "cellView": "form",
    }
    folds.mark(cell, in_sight=True)
    assert cell.metadata == {"tags": ["claim-C01"]}
