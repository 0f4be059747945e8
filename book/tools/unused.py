"""What nothing reaches: code that no package, no tool and no notebook speaks of. Tests are no users.

    python book/tools/unused.py        names each; 1 if there is one

vulture finds it, by name. What others call by its name, and what is kept on purpose, stands in pyproject.toml's
``[tool.vulture]``. An ``__init__.py`` hands names on, and so is no user of them.
"""

import sys
import tempfile
import tomllib
from pathlib import Path

import nbformat
from IPython.core.inputtransformer2 import TransformerManager
from vulture.core import Vulture

ROOT = Path(__file__).resolve().parents[2]
PLACES = ("compile_lab", "chapters", "mini_model", "capstone", "book/_ext", "book/tools")


def code_of(notebook: Path) -> str:
    """A notebook's code cells as one Python file, magics written out."""
    cells = nbformat.read(notebook, as_version=4).cells
    return "\n".join(TransformerManager().transform_cell(each.source) for each in cells if each.cell_type == "code")


def unused(root: Path = ROOT) -> list[str]:
    """What is not used, a line each: where, what, and how sure that is. What is set on another's object is left out."""
    options = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["vulture"]
    finder = Vulture(ignore_names=options["ignore_names"], ignore_decorators=options["ignore_decorators"])
    with tempfile.TemporaryDirectory() as folder:
        for notebook in sorted((root / "notebooks").glob("*.ipynb")):
            (Path(folder) / f"{notebook.stem}.py").write_text(code_of(notebook))
        finder.scavenge([*(root / each for each in PLACES), folder], exclude=["*/__init__.py"])
        found = finder.get_unused_code()
    return [each.get_report() for each in found if each.typ != "attribute" and root in Path(each.filename).parents]


if __name__ == "__main__":
    print(*(lines := unused()), sep="\n", end="\n" if lines else "")
    sys.exit(bool(lines))
