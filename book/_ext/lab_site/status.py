"""The status page: what was run when, for how long, and with which versions.

``make execute`` writes these facts into a notebook's metadata under ``compile_lab``; this part only shows them.
"""

import json
from pathlib import Path

import sphinx_external_toc.parsing
from sphinx.util.docutils import SphinxDirective

# Four columns, so that the table fits a phone.
COLUMNS = {
    "Date": "{executed}",
    "Seconds": "{seconds:.0f}",
    "Ran on": "{device}, Python {python}, torch {torch}, triton {triton}, numpy {numpy}",
}


def notebooks(root: Path) -> list[Path]:
    """The notebooks of the table of contents, in reading order."""
    contents = sphinx_external_toc.parsing.parse_toc_yaml(root / "_toc.yml")
    names = [name if name.endswith(".ipynb") else f"{name}.ipynb" for name in map(str, contents)]
    return [root / name for name in names if (root / name).is_file()]


def title(path: Path) -> str:
    """The heading that a notebook begins with."""
    first = json.loads(path.read_text("utf-8"))["cells"][0]
    return "".join(first["source"]).splitlines()[0].removeprefix("# ")


def facts(path: Path) -> dict | None:
    """What the execution tool stored in this notebook; None if it never ran it."""
    return json.loads(path.read_text("utf-8"))["metadata"].get("compile_lab")


def row(path: Path, link: str) -> str:
    known = facts(path)
    if known is None:
        return f"| {link} | not executed yet |" + " |" * (len(COLUMNS) - 1)
    return f"| {link} | " + " | ".join(text.format(**known) for text in COLUMNS.values()) + " |"


class Status(SphinxDirective):
    """``{lab-status}``: one row a notebook."""

    def run(self):
        root = Path(self.env.srcdir)
        self.env.note_dependency(str(root / "_toc.yml"))
        lines = ["| Notebook | " + " | ".join(COLUMNS) + " |", "|---|" + "---|" * len(COLUMNS)]
        for path in notebooks(root):
            self.env.note_dependency(str(path))
            lines.append(row(path, f"[](/{path.relative_to(root).as_posix()})"))
        return self.parse_text_to_nodes("\n".join(lines))


def setup(app):
    app.add_directive("lab-status", Status)
