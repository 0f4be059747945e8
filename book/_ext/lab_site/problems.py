"""Worked problems: the reader computes a number, and compares it, before the solution is opened.

A chapter writes one in Markdown, which every notebook program shows as it stands. The last line of the code gives the
number in bold, which `tests/test_problems.py` runs:

    ## Worked problem: how long does the all-reduce take?

    *Every number that is needed, and last the quantity asked for, with its unit.*

    <details>
    <summary>Solution</summary>

    The bound first, then the result: **3.2 ms**.

    ```python
    400e6 * 2 / 250e9 * 1e3  # ms
    ```

    </details>

On the page `problems.js` puts a field between the two; without a script there is the solution, to open.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util import logging

from .flow import box
from .pages import html

TITLE = "Worked problem: "
HEADING = re.compile(rf"^#{{2,3}} {TITLE}(.+)$", re.MULTILINE)
OPENING = "<details>\n<summary>Solution</summary>"
SOLUTION = re.compile(rf"{OPENING}\n(.*?)</details>", re.DOTALL)
STATEMENT = re.compile(r"\*(?!\*)[^*]+\*")
BOLD = re.compile(r"\*\*(.+?)\*\*", re.DOTALL)
CODE = re.compile(r"```python\n(.*?)```", re.DOTALL)
ANSWER = re.compile(r"(\d{1,3}(?:,\d{3})+|\d+)(\.\d+)? ?(\D.*)")
SURE_DIGITS = 3
"""Of a number that ends in zeros so many digits count: 13,500 is rounded to hundreds, 1,400 to tens, 400 to ones."""


@dataclass(frozen=True)
class Answer:
    """The number in bold; it is right within ``rounding``. ``unit`` is as written."""

    value: float
    rounding: float
    unit: str


def read_answer(text: str) -> Answer:
    """The number that a solution has in bold, "1,240 steps". ValueError for what is no number above 0 with a unit.

    >>> read_answer("1,240 steps"), read_answer("3.20 ms")
    (Answer(value=1240.0, rounding=5.0, unit='steps'), Answer(value=3.2, rounding=0.005, unit='ms'))
    """
    found = ANSWER.fullmatch(" ".join(text.split()))
    if not found or not (value := float(found[1].replace(",", "") + (found[2] or ""))):
        raise ValueError(f"{text!r} is no number above 0 with its unit: write **3.2 ms** or **1,240 steps**")
    digits = found[1].replace(",", "")
    zeros = min(len(digits) - len(digits.rstrip("0")), max(0, len(digits) - SURE_DIGITS))
    place = 10.0 ** (1 - len(found[2]) if found[2] else zeros)
    return Answer(value, place / 2, found[3])


@dataclass(frozen=True)
class Problem:
    """A worked problem as a notebook has it; ``code`` computes the number."""

    title: str
    statement: str
    solution: str
    answer: Answer
    code: str


def written(markdown: str) -> Iterator[Problem]:
    """The worked problems of a text. ValueError names the one that is not written as above, and the rule."""
    parts = HEADING.split(markdown)
    for title, body in zip(parts[1::2], parts[2::2], strict=True):
        statement, opening, _ = body.partition(OPENING)
        solutions = SOLUTION.findall(body)
        if not opening or len(solutions) != 1:
            raise ValueError(f"{title!r} has no solution, or two: put one between {OPENING!r} and '</details>'")
        if not STATEMENT.fullmatch(statement.strip()):
            raise ValueError(f"{title!r} has to be stated in one paragraph of italics, and in nothing else")
        codes, bold = CODE.findall(solutions[0]), BOLD.findall(CODE.sub("", solutions[0]))
        if len(bold) != 1 or len(codes) != 1:
            raise ValueError(f"The solution of {title!r} needs one number in bold, and one block of Python")
        yield Problem(title, statement.strip(), solutions[0], read_answer(bold[0]), codes[0])


class Problems(SphinxPostTransform):
    """A problem's statement, its place for an answer and its solution, in one box."""

    default_priority = 302  # after ``flow``
    formats = ("html",)

    def run(self, **kwargs):
        for section in list(self.document.findall(nodes.section)):
            if not section[0].astext().startswith(TITLE):
                continue
            try:
                frame(section)
            except ValueError as error:
                logging.getLogger(__name__).warning("%s: %s", section[0].astext(), error, location=section)


def frame(section: nodes.section) -> None:
    """Puts a problem into its box. ValueError if it is not written as it should be."""
    tags = [at for at, node in enumerate(section) if isinstance(node, nodes.raw) and "details>" in node.astext()]
    if len(tags) != 2 or not section[tags[0]].astext().startswith(OPENING):
        raise ValueError(f"there has to be one solution, between {OPENING!r} and '</details>'")
    first, last = tags
    statement, solution = section[first - 1], section[first + 1 : last]
    answers = [strong for node in solution for strong in node.findall(nodes.strong)]
    if len(answers) != 1:
        raise ValueError(f"its solution has {len(answers)} texts in bold: the number alone has to be")
    answer = read_answer(answers[0].astext())
    place = html(f"<div class='lab-try' data-answer='{json.dumps([answer.value, answer.rounding])}'></div>")
    folded = box("", html("<summary>Solution</summary>"), *solution, tag="details", classes=["lab-solution"])
    for node in section[first - 1 : last + 1]:
        section.remove(node)
    section.insert(first - 1, box("", statement, place, folded, tag="div", classes=["lab-problem"]))


def style(app, pagename, templatename, context, doctree):
    if "lab-problem" in context.get("body", ""):
        app.add_css_file("problems.css")
        app.add_js_file("problems.js", loading_method="defer", priority=900)  # after lab.js


def setup(app):
    app.add_post_transform(Problems)
    app.connect("html-page-context", style)
