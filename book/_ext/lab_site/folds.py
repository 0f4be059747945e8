"""Folded cells: what is behind the mark that stands for their code. Which cells fold: ``book/tools/folds.py``."""

import ast
import re

from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform

# What a cell shows, by what its stored HTML holds; of several the first in this order.
SHOWN = {
    "lab-prediction": "the prediction below",
    "lab-explorer": "the explorer below",
    "lab-figure": "the figure below",
    "lab-verdict": "the verdict below",
    "lab-headline": "the number below",
    "lab-journey": "the journey below",
    "lab-table": "the table below",
    "lab-machine": "which machine this is",
    'class="highlight"': "the listing below",
}
MOST_NAMES = 3


def shown(cell: nodes.container) -> str:
    """What stands below a cell's code, in a few words; "" if nothing does."""
    outputs = [child for child in cell.children if child.get("nb_element") == "cell_code_output"]
    raw = " ".join(node.astext() for output in outputs for node in output.findall(nodes.raw))
    if found := next((words for mark, words in SHOWN.items() if mark in raw), ""):
        return found
    if any(output.next_node(nodes.paragraph) for output in outputs):
        return "the sentence below"
    return "what is printed below" if outputs else ""


def behind(cell: nodes.container) -> str:
    """What a fold hides: the functions that the cell defines, and what it shows or else the names that it makes."""
    source = cell.children[0].astext()
    body = ast.parse(re.sub(r"(?m)^(\s*)[%!].*$", r"\1pass", source)).body
    defined = [f"{node.name}()" for node in body if isinstance(node, ast.FunctionDef)]
    defined += [node.name for node in body if isinstance(node, ast.ClassDef)]
    if found := shown(cell):
        return ", ".join([*defined[:MOST_NAMES], found])
    if any(isinstance(node, ast.Import | ast.ImportFrom) for node in body) and not defined:
        return "imports"
    targets = [target for node in body if isinstance(node, ast.Assign) for target in node.targets]
    made = [name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)]
    names = [name for name in dict.fromkeys([*defined, *made]) if name.strip("_")]
    return ", ".join(names[:MOST_NAMES]) + (" …" if len(names) > MOST_NAMES else "") or "preparation"


class FoldedCells(SphinxPostTransform):
    """The words of a fold: "the table below", for ``flow``, and "Show the solution"."""

    default_priority = 150  # before myst-nb folds
    formats = ("html",)

    def run(self, **kwargs):
        for cell in self.document.findall(nodes.container):
            if cell.get("hide_mode") == "input":
                cell["folded"] = "setup" if "tag_setup" in cell["classes"] else behind(cell)
                del cell["hide_mode"]
            elif cell.get("hide_mode") and any(name.startswith("tag_solution") for name in cell["classes"]):
                cell["prompt_show"], cell["prompt_hide"] = "Show the solution", "Hide the solution"


def setup(app):
    app.add_post_transform(FoldedCells)
