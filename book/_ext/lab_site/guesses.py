"""The page "Guess, then run": the predictions in which somebody's guess stands that was wrong, by part of the book.

A prediction with ``guessed`` (``compile_lab.page.predict``) keeps it in its stored data; this part only gathers them.
"""

import html
import json
import re
from pathlib import Path

import sphinx_external_toc.parsing
from sphinx.util.docutils import SphinxDirective

from compile_lab.page.tables import marked_up

from . import status

QUESTION = re.compile(r'<script type="application/json" class="lab-asked">(.*?)</script>', re.DOTALL)


def guesses(path: Path) -> list[tuple[int, str]]:
    """Of one notebook, the number of the cell and the question of each prediction that somebody guessed wrong."""
    found = []
    for cell in json.loads(path.read_text("utf-8"))["cells"]:
        for output in cell.get("outputs", []):
            for data in QUESTION.findall("".join(output.get("data", {}).get("text/html", ""))):
                asked = json.loads(data)
                if "guessed" in asked:
                    found.append((cell["execution_count"], asked["question"]))
    return found


def parts(root: Path) -> list[tuple[str, list[Path]]]:
    """The book's parts by their captions, each with its notebooks."""
    contents = sphinx_external_toc.parsing.parse_toc_yaml(root / "_toc.yml")
    known = {path.relative_to(root).as_posix().removesuffix(".ipynb"): path for path in status.notebooks(root)}
    of = [(tree.caption, [known[name] for name in map(str, tree.items) if name in known])
          for tree in contents.root.subtrees]  # fmt: skip
    return [(caption, paths) for caption, paths in of if paths]


class Guesses(SphinxDirective):
    """``{lab-guesses}``: a list for each part; ``predictions.js`` writes the reader's own score into it."""

    def run(self):
        root = Path(self.env.srcdir)
        self.env.note_dependency(str(root / "_toc.yml"))
        lines = []
        for caption, paths in parts(root):
            rows = []
            for path in paths:
                self.env.note_dependency(str(path))
                name = path.relative_to(root).as_posix().removesuffix(".ipynb")
                page = self.env.app.builder.get_relative_uri(self.env.docname, name)
                for cell, question in guesses(path):
                    key = html.escape(f"{page.rpartition('/')[2]}#{question}")
                    link = f'<a href="{page}#cell-{cell}">{html.escape(status.title(path))}, cell {cell}</a>'
                    rows.append(f'<li data-key="{key}">{marked_up(question)} <span>{link}</span></li>')
            if rows:
                lines += [f"## {caption}", "", "```{raw} html", '<ol class="lab-guesses">', *rows, "</ol>", "```", ""]
        return self.parse_text_to_nodes("\n".join(lines), allow_section_headings=True)


def setup(app):
    app.add_directive("lab-guesses", Guesses)
