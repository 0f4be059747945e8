"""The status page: what was run when, for how long, with which versions; and what other torches make of it.

``make execute`` writes the first into a notebook's metadata under ``compile_lab``, ``book/tools/verdicts.py`` the
second into ``book/verdicts.json``; this part only shows them.
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


def other_torches(root: Path) -> dict[str, dict]:
    """What other torches say of the same cells (``book/tools/verdicts.py``), by version, the oldest first."""
    kept = json.loads((root / "book/verdicts.json").read_text("utf-8"))
    return {version: kept[version] for version in sorted(kept, key=lambda each: [*map(int, each.split("."))])}


def in_words(cells: dict[str, dict[str, str]] | None) -> str:
    """How one chapter went on one torch: "the same", or how many cells raised and how many said something else."""
    if cells is None:
        return "not run"
    raised = sum("raised" in each for each in cells.values())
    counts = {"raises": raised, "differs": len(cells) - raised}
    return ", ".join(f"{what} in {count}" for what, count in counts.items() if count) or "the same"


def _shown(line: str) -> str:
    """A line in a code span of a page's Markdown: columns of a table no longer apart, no backticks."""
    return " ".join(line.split()).replace("`", "'")


class Torches(SphinxDirective):
    """``{lab-torches}``: a row for each chapter, a column for each other torch; the cells that say something else."""

    def run(self):
        root = Path(self.env.srcdir)
        self.env.note_dependency(str(root / "book/verdicts.json"))
        runs = {version: kept.get("cells", {}) for version, kept in other_torches(root).items()}
        lines = [f"| Chapter | {' | '.join(f'torch {version}' for version in runs)} |", f"|---|{'---|' * len(runs)}"]
        every = []
        for path in notebooks(root):
            link, words = (
                f"[](/{path.relative_to(root).as_posix()})",
                [in_words(cells.get(path.stem)) for cells in runs.values()],
            )
            lines.append(f"| {link} | {' | '.join(words)} |")
            moved = {version: cells.get(path.stem) for version, cells in runs.items() if cells.get(path.stem)}
            items = [
                f"- cell {number}, torch {version}, {word}: `{_shown(what)}`"
                for version, cells in moved.items()
                for number, each in sorted(cells.items(), key=lambda each: int(each[0]))
                for word, what in each.items()
            ]
            every += ["", f"{link}", "", *items] if items else []
        return self.parse_text_to_nodes("\n".join(lines)) + self.parse_text_to_nodes("\n".join(every))


def setup(app):
    app.add_directive("lab-status", Status)
    app.add_directive("lab-torches", Torches)
