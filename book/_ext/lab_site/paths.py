"""Ways into the book, on the landing page: chapters for a reader's purpose, and sections for what is wrong just now.

Minutes and headings are read out of the chapters, so that a path's time is theirs and a heading that is gone stops the
build.
"""

import json
import re
from html import escape
from pathlib import Path

from docutils import nodes

from . import status
from .landing import FromChapters

MINUTES = re.compile(r"^\*Time: about (?:(\d+) minutes|an hour)", re.MULTILINE)
HEADING = re.compile(r"^#{1,3} (.+?)\s*$", re.MULTILINE)


def prose(path: Path) -> str:
    cells = json.loads(path.read_text("utf-8"))["cells"]
    return "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")


def hours(minutes: int) -> str:
    r"""
    >>> hours(45), hours(115), hours(240)
    ('45\xa0min', '1\xa0h 55\xa0min', '4\xa0h')
    """
    whole, rest = divmod(minutes, 60)
    return " ".join(f"{number}\N{NO-BREAK SPACE}{unit}" for number, unit in ((whole, "h"), (rest, "min")) if number)


class PathRows(FromChapters):
    """One row a line of the content: ``what a reader says | where to go``."""

    has_content = True

    def rows(self):
        for line in filter(None, map(str.strip, self.content)):
            said, _, where = map(str.strip, line.partition("|"))
            yield said, where

    def minutes(self, path: Path) -> int:
        if not (found := MINUTES.search(prose(path))):
            raise self.error(f"{path.name} does not say how long it takes: *Time: about N minutes …")
        return int(found[1] or 60)

    def table(self, columns, rows):
        cells = (("th scope='col'", "th", columns), *(("td", "td", row) for row in rows))
        lines = ("".join(f"<{start}>{cell}</{end}>" for cell in row) for start, end, row in cells)
        return self.show(f'<table class="lab-table lab-paths"><tr>{"</tr><tr>".join(lines)}</tr></table>')


class Paths(PathRows):
    """``{lab-paths}`` with lines as ``I train on one GPU | 01 02 06``: the chapters, and the time that they take."""

    def run(self):
        rows = []
        for said, where in self.rows():
            chapters = list(filter(None, map(self.chapter, where.split())))
            links = (f'<a href="{self.address(path)}">{path.name[:2]} {status.title(path)}</a>' for path in chapters)
            minutes = sum(self.minutes(path) for path in chapters)
            if chapters:
                rows.append((escape(said), " · ".join(links), hours(minutes)))
        return self.table(("You", "Read", "Time"), rows)


class Where(PathRows):
    """``{lab-where}`` with lines as ``It hangs | 11 When a rank fails; book/hang_lab``: links to sections and pages."""

    def run(self):
        found = [(said, list(filter(None, map(self.link, where.split(";"))))) for said, where in self.rows()]
        rows = [(escape(said), "<br>".join(links)) for said, links in found if links]
        return self.table(("What you see", "Where it is taken apart"), rows)

    def link(self, place: str) -> str | None:
        if (place := place.strip()).startswith("book/"):
            page = self.read(self.root / f"{place}.md")
            return f'<a href="{self.address(page)}">{HEADING.search(page.read_text("utf-8"))[1]}</a>'
        number, _, heading = place.partition(" ")
        if not (path := self.chapter(number)):
            return None
        if heading not in HEADING.findall(prose(path)):
            raise self.error(f"{path.name} has no heading {heading!r}")
        words = escape(heading).replace("`", "")
        return f'<a href="{self.address(path)}#{nodes.make_id(heading)}">{number} · {words}</a>'


def setup(app):
    app.add_directive("lab-paths", Paths)
    app.add_directive("lab-where", Where)
