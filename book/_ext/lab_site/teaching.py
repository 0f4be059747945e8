"""The page for instructors: a course in weeks, and where each exercise is judged, both out of the notebooks."""

import json
import re
from dataclasses import dataclass
from html import escape
from pathlib import Path

from docutils import nodes

from . import status
from .paths import PathRows, hours

HEADING = re.compile(r"^### (?P<name>(?P<number>\d\d\.\d+) (?P<title>.*★.*?))\s*$", re.MULTILINE)
IN_PAGE = "in-page"
STAR = "★"


@dataclass(frozen=True)
class Exercise:
    """One exercise: its `number` ("01.2"), one to three `stars`, its title, its heading's anchor, and whether plain
    Python judges it in the page, too."""

    number: str
    stars: str
    title: str
    anchor: str
    in_page: bool


def exercises(path: Path) -> list[Exercise]:
    """The exercises of a notebook in their order. Raises ValueError for a cell ``exercise-NN.n`` without a heading."""
    cells = json.loads(path.read_text("utf-8"))["cells"]
    prose = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    headings = {found["number"]: found for found in HEADING.finditer(prose)}
    rows = []
    for cell in cells:
        tags = cell["metadata"].get("tags", [])
        for number in (tag.removeprefix("exercise-") for tag in tags if tag.startswith("exercise-")):
            if number not in headings:
                raise ValueError(f"{path.name}: exercise {number} has no heading '### {number} ★ Its title' above it")
            found = headings[number]
            stars, title = STAR * found["title"].count(STAR), found["title"].strip(f"{STAR} ")
            rows.append(Exercise(number, stars, title, nodes.make_id(found["name"]), IN_PAGE in tags))
    return rows


class Exercises(PathRows):
    """``{lab-exercises}``: a row for each chapter, its exercises by where they are judged, each a link."""

    has_content = False

    def run(self):
        self.env.note_dependency(str(self.root / "_toc.yml"))
        rows = []
        for path in map(self.read, status.notebooks(self.root)):
            asked = exercises(path)
            in_page = [self.link(path, each) for each in asked if each.in_page]
            others = [self.link(path, each) for each in asked if not each.in_page]
            chapter = f'<a href="{self.address(path)}">{path.name[:2]} {escape(status.title(path))}</a>'
            rows.append((chapter, " · ".join(in_page), " · ".join(others)))
        return self.table(("Chapter", "In the page and in the notebook", "In the notebook"), rows)

    def link(self, path: Path, exercise: Exercise) -> str:
        title = escape(exercise.title.replace("`", ""))
        address = f"{self.address(path)}#{exercise.anchor}"
        return f'<a href="{address}" title="{title}">{exercise.number}</a>\N{NO-BREAK SPACE}{exercise.stars}'


class Course(PathRows):
    """``{lab-course}`` with a line a week, ``From Python to graphs | 01 02``: chapters, exercises, time to read.

    Every chapter of ``_toc.yml`` stands in one week, or the build ends.
    """

    def run(self):
        rows, placed = [], []
        for week, (theme, where) in enumerate(self.rows(), start=1):
            chapters = list(filter(None, map(self.chapter, where.split())))
            placed += chapters
            names = (f'<a href="{self.address(path)}">{path.name[:2]} {status.title(path)}</a>' for path in chapters)
            asked = [each for path in chapters for each in exercises(path)]
            judged = f"{len(asked)} exercises, {sum(each.in_page for each in asked)} of them in the page"
            time = f"{hours(sum(map(self.minutes, chapters)))}; {judged}"
            rows.append((f"<b>{week}</b> {escape(theme)}", "<br>".join(names), time))
        if absent := [path.stem for path in status.notebooks(self.root) if path not in placed]:
            raise self.error(f"no week of the course has {', '.join(absent)}")
        return self.table(("Week", "Chapters", "Reading"), rows)


def setup(app):
    app.add_directive("lab-exercises", Exercises)
    app.add_directive("lab-course", Course)
