"""Which cells a reader sees the code of: what a reader learns from stays in sight, the rest folds to one thin line.

    python book/tools/folds.py        marks every notebook's cells; prints the notebooks that changed

A cell stays in sight if it is an exercise, or if it is short, uses torch's or jax's interface or an instrument, and is
new: a name that the chapter has not shown yet, or an instrument at work on a function that the cell defines. All else
builds what is shown (a table, a sentence, a verdict, an explorer) or prepares it, and folds: on the site by the tag
``hide-input``, in JupyterLab by ``source_hidden``, on Colab by ``cellView``. Outputs are never touched.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import nbformat

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"

LONGEST_IN_SIGHT = 12  # lines that are not blank: what is longer does more than show one thing
TEXTS = {"Markdown", "Verdict", "Explorer", "Prediction", "Headline"}
"""A cell that ends in one of these makes a sentence, a verdict, an explorer, a prediction or a headline."""

INSTRUMENT = re.compile(
    r"(compile_lab\.(?!page|preflight|recordings\b|\w+\.view\b)"
    r"|chapters\.(?!record\b|registry\b|shared|exercises|\w+\.(experiments|exercises|in_page|view)\b))(?!.*_view\b)\w+\.\w+"
)
ORDINARY = re.compile(
    r"torch\.(nn\b(?!\.functional\.)|distributed$|optim$|compiler$|utils$|cuda\b|testing|device$|__version__"
    r"|u?int\d+$|b?float\d+$|bool$|finfo$|[sg]et_num_threads$|Generator|Size$|Tensor$"
    r"|(manual_)?seed|rand\w*|zeros\w*|ones\w*|empty\w*|full\w*|tensor$|arange$|linspace$|eye$|equal$|allclose$"
    r"|no_grad|inference_mode)"
    r"|jax\.(random|numpy|devices|Array|sharding|make_mesh|device_put|tree)"
)
"""Names of torch and jax that every reader knows: they make data, models and settings, and need not be shown."""


def imported(tree: ast.Module) -> dict[str, str]:
    """What a cell imports, by the name that it uses: ``F`` -> ``torch.nn.functional``."""
    names = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                names[alias.asname or alias.name.partition(".")[0]] = (
                    alias.name if alias.asname else alias.name.partition(".")[0]
                )
        elif isinstance(node, ast.ImportFrom):
            names |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    return names


def used(tree: ast.Module, known: dict[str, str]) -> Iterator[str]:
    """The imported names that a cell uses, each in full: ``torch.compile``."""
    inner = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute | ast.Name) and id(node) not in inner:
            first, _, rest = ast.unparse(node).partition(".")
            if first in known and re.fullmatch(r"[\w.]*", rest):
                yield f"{known[first]}.{rest}" if rest else known[first]


def halves(tree: ast.Module) -> tuple[ast.Module, ast.Module]:
    """What a cell defines, functions and classes, and what it does."""
    defined = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    return ast.Module(defined, []), ast.Module([node for node in tree.body if node not in defined], [])


def last_call(tree: ast.Module) -> str:
    """The function whose value a cell shows, or ""."""
    last = tree.body[-1] if tree.body else None
    is_call = isinstance(last, ast.Expr) and isinstance(last.value, ast.Call)
    return ast.unparse(last.value.func) if is_call else ""


def tagged(cell, kind: str) -> bool:
    return any(tag.startswith(kind) for tag in cell.metadata.get("tags", []))


class Chapter:
    """Reads a notebook's code cells from the top, and knows what it has seen."""

    def __init__(self) -> None:
        self.known = {"jax": "jax"}  # a door gives it, where it is there
        self.shown: set[str] = set()

    def in_sight(self, cell) -> bool:
        """Whether the next code cell's source stays in sight."""
        source = re.sub(r"(?m)^(\s*)[%!].*$", r"\1pass", cell.source)  # IPython's own lines are no Python
        tree = ast.parse(source)
        self.known |= imported(tree)
        if tagged(cell, "exercise-"):
            return True
        if any(tagged(cell, kind) for kind in ("setup", "opening", "claim-", "solution-")) or last_call(tree) in TEXTS:
            return False
        names = set(used(tree, self.known))
        lessons = {
            name
            for name in names
            if INSTRUMENT.match(name) or (name.startswith(("torch.", "jax.")) and not ORDINARY.match(name))
        }
        defined, done = halves(tree)
        at_work = any(INSTRUMENT.match(name) for name in used(done, self.known))
        is_new = lessons - self.shown or (defined.body and at_work)
        if not is_new or sum(map(bool, source.split("\n"))) > LONGEST_IN_SIGHT:
            return False
        self.shown |= lessons
        return True


def mark(cell, in_sight: bool) -> None:
    """Write into a cell's metadata whether its code is folded. (On the site a solution folds by a tag of its own.)"""
    tags = [tag for tag in cell.metadata.get("tags", []) if tag != "hide-input"]
    is_solution = "hide-cell" in tags
    if not in_sight and not is_solution:
        tags.append("hide-input")
    shell = {key: value for key, value in cell.metadata.get("jupyter", {}).items() if key != "source_hidden"}
    if not in_sight:
        shell["source_hidden"] = True
    for key, value in (("tags", tags), ("jupyter", shell), ("cellView", "" if in_sight else "form")):
        cell.metadata.pop(key, None)
        if value:
            cell.metadata[key] = value


def marked(notebook):
    """The notebook with each code cell marked."""
    chapter = Chapter()
    for cell in notebook.cells:
        if cell.cell_type == "code":
            mark(cell, chapter.in_sight(cell))
    return notebook


def main() -> None:
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        text = nbformat.writes(marked(nbformat.read(path, as_version=4))) + "\n"
        if text != path.read_text("utf-8"):
            path.write_text(text, "utf-8")
            print(f"marked {path.name}")


if __name__ == "__main__":
    main()
