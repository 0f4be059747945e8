"""What a reader sees of the code: every notebook's cells are marked as the rule says, and the rule tells them apart."""

import importlib.util
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted(ROOT.glob("notebooks/*.ipynb"))
spec = importlib.util.spec_from_file_location("folds", ROOT / "book/tools/folds.py")
folds = importlib.util.module_from_spec(spec)
spec.loader.exec_module(folds)

TRACE = "from compile_lab.dynamo import trace, view as dynamo_view\n"


def cells(*sources, tags=()):
    return [nbformat.v4.new_code_cell(source, metadata={"tags": list(tags)} if tags else {}) for source in sources]


def in_sight(*sources, tags=()):
    """Whether the last of these cells stays in sight, in a chapter that consists of them."""
    chapter = folds.Chapter()
    return [chapter.in_sight(cell) for cell in cells(*sources, tags=tags)][-1]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_cell_is_marked_as_the_rule_says(path):
    text = path.read_text("utf-8")
    marked = nbformat.writes(folds.marked(nbformat.read(path, as_version=4))) + "\n"
    assert marked == text, f"{path.name} is not marked: run .venv/bin/python book/tools/folds.py"


@pytest.mark.parametrize(
    "source",
    [
        "import torch\ntorch.compile(f, backend='eager')",
        "import torch.nn.functional as F\ndef f(x):\n    return F.gelu(x)",
        TRACE + "found = trace(f, x)\ndynamo_view.graph_code(found)",
        "from compile_lab.devices import ranks\nranks.run(f, 4)",
    ],
)
def test_torchs_interface_and_an_instrument_stay_in_sight(source):
    assert in_sight(source)


@pytest.mark.parametrize(
    "source",
    [
        "import torch\nfrom compile_lab.dynamo import trace",
        TRACE + "dynamo_view.breaks(found)",
        "from compile_lab.page import Table\nTable(['a'], rows)",
        "from IPython.display import Markdown\nMarkdown(f'{trace(f, x)}')",
        TRACE + "from compile_lab.page import Explorer\nExplorer('title', axes, lambda a: trace(f, a))",
        "import torch\nmodel = torch.nn.Linear(3, 3)\nx = torch.randn(3)",
        "from chapters.four_patterns.experiments import patterns_view as view\nview.rates(rows)",
        "from chapters import record\non_gpu = record.result('dispatch')",
        TRACE + "trace(f, x)" + "\nx = 1" * folds.LONGEST_IN_SIGHT,
    ],
)
def test_what_only_prepares_or_shows_folds(source):
    assert not in_sight(source)


def test_what_was_shown_before_folds_unless_it_is_done_to_a_function_of_the_cells_own():
    assert not in_sight(TRACE + "trace(f, x)", "trace(g, x)")
    assert in_sight(TRACE + "trace(f, x)", "def g(x):\n    return x\n\n\ntrace(g, x)")


def test_an_exercise_stays_in_sight_and_a_verdict_does_not():
    assert in_sight("def f(x):\n    return x", tags=["exercise-01.1"])
    assert not in_sight("import torch\ntorch.compile(f)", tags=["claim-C01"])
    assert not in_sight("import torch\ntorch.compile(f)", tags=["opening"])


def test_marking_folds_for_all_three_readers_and_can_be_undone():
    (cell,) = cells("x = 1", tags=["claim-C01"])
    folds.mark(cell, in_sight=False)
    assert cell.metadata == {
        "tags": ["claim-C01", "hide-input"],
        "jupyter": {"source_hidden": True},
        "cellView": "form",
    }
    folds.mark(cell, in_sight=True)
    assert cell.metadata == {"tags": ["claim-C01"]}


def test_a_solution_is_folded_by_its_own_tag():
    (cell,) = cells("x = 1", tags=["solution-01.1", "hide-cell"])
    folds.mark(cell, in_sight=False)
    assert cell.metadata["tags"] == ["solution-01.1", "hide-cell"] and cell.metadata["jupyter"]["source_hidden"]
