"""Slides from chapters, one HTML file each, which loads nothing from anywhere.

    python book/tools/slides.py [NAME …]        all chapters, or those named, into _build/slides

Headings, lists, pictures, tables and code that stands in the page become slides, and so do questions, with the answer
on the slide after. Prose becomes speaker notes (key S). Setup, folded listings and solutions are left out.
"""

import argparse
import json
import re
import sys
from collections.abc import Iterator
from html import escape
from pathlib import Path

import nbformat
from bs4 import BeautifulSoup
from execute import chosen
from nbconvert.exporters import SlidesExporter
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from repository import current, spellings

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "book/_ext"))

from lab_site import bundle, formulas, problems  # noqa: E402

from compile_lab.page.dress import SHEET  # noqa: E402

DECK = Path(__file__).with_name("slide_deck")
MODULES = ROOT / "book/node_modules"
REVEAL = MODULES / "reveal.js/dist"
PLOTLY = MODULES / "plotly.js-basic-dist-min/plotly-basic.min.js"
FOLDER = ROOT / "_build/slides"
FORMULA = re.compile(r"\$\$(?P<block>.+?)\$\$|(?<![\\$\w])\$(?P<inline>[^$\n]+?)\$(?!\d)", re.DOTALL)
CODE = re.compile(r"(```.*?```|`[^`\n]*`)", re.DOTALL)
CHAPTER = re.compile(r"\]\((\d\d_\w+)\.ipynb(#[^)]*)?\)")
DATA = re.compile(r'<script type="application/json".*?</script>', re.DOTALL)
SHOWN_BLOCK = re.compile(r"[-*] |\d+\. |\$\$|```|\||> ")
SKIPPED_OUTPUT = re.compile(r'class="lab-(?:machine|behind)"')
TITLE = re.compile(r"\*\*([^*]+)\*\*$")
"""A paragraph that is a heading, as "What you will be able to do"."""
EXERCISES = "Exercises"
HEADING = re.compile(r"(#{1,3}) (.*)")


def typeset(text: str) -> str:
    """Markdown with its formulas as drawings, and its links to chapters as links to the published ones."""
    site = f"{spellings(current())[2]}/notebooks/"

    def formula(found: re.Match) -> str:
        tex = found["block"] or found["inline"]
        return formulas.typeset(str(ROOT), tex.strip(), bool(found["block"]))["html"]

    parts = CODE.split(CHAPTER.sub(lambda link: f"]({site}{link[1]}.html{link[2] or ''})", text))
    return "".join(part if at % 2 else FORMULA.sub(formula, part) for at, part in enumerate(parts))


def blocks(text: str) -> list[str]:
    """A Markdown text's blocks: parted by blank lines, which a fence may hold."""
    found: list[str] = []
    for piece in text.split("\n\n"):
        if found and found[-1].count("```") % 2:
            found[-1] += f"\n\n{piece}"
        elif piece.strip():
            found.append(piece.strip("\n"))
    return found


class Deck:
    """Cells with the kind of slide that each begins, as nbconvert's exporter reads it."""

    def __init__(self) -> None:
        self.cells: list[NotebookNode] = []
        self.heading, self.is_taken = "", False

    def add(self, cell: NotebookNode, kind: str) -> None:
        cell.metadata["slideshow"] = {"slide_type": kind}
        self.cells.append(cell)

    def text(self, source: str, kind: str = "-") -> None:
        self.add(new_markdown_cell(typeset(source)), kind)

    def begin(self, heading: str, kind: str) -> None:
        """A slide with this heading."""
        self.text(heading, kind)
        self.heading, self.is_taken = heading.lstrip("# "), False

    def make_room(self) -> None:
        """The slide after, below the same heading, if something big stands on this one."""
        if self.is_taken:
            self.html(f'<p class="again">{escape(self.heading)}</p>', "subslide")
        self.is_taken = True

    def html(self, body: str, kind: str = "-") -> None:
        self.outputs(new_code_cell(outputs=[new_output("display_data", {"text/html": body})]), kind)

    def outputs(self, cell: NotebookNode, kind: str = "-") -> None:
        """What a cell shows, without its code."""
        cell.metadata["transient"] = {"remove_source": True}
        self.add(cell, kind)


def read(html: str) -> BeautifulSoup:
    """What a cell shows, without what only the site's scripts read; and no section is in it, which would be a slide."""
    page = BeautifulSoup(DATA.sub("", html), "html.parser")
    for controls in page.select(".lab-controls"):
        controls.decompose()
    for section in page("section"):
        section.name = "div"
    return page


def without_data(output: NotebookNode) -> NotebookNode:
    """An output for a slide, without a plot that the HTML draws, too."""
    data = output.get("data", {})
    data.pop("application/vnd.plotly.v1+json", None)
    if "text/html" in data:
        data["text/html"] = str(read(data["text/html"]))
    if "text/markdown" in data:
        data["text/markdown"] = typeset(data["text/markdown"])
    return output


def prediction(cell: NotebookNode) -> tuple[str, list[str], str] | None:
    """Of a cell that asks: the question, the choices and the answer, as HTML; None if it asks nothing."""
    for output in cell.outputs:
        html = output.get("data", {}).get("text/html", "")
        if 'class="lab-prediction"' in html:
            choices = json.loads(bundle.ASKED.search(html)[1]).get("choices") or []
            page = read(html)
            question, answer = page.select_one(".lab-question"), page.select_one(".lab-answer")
            return question.decode_contents(), choices, str(answer)
    return None


def shown_outputs(cell: NotebookNode) -> Iterator[NotebookNode]:
    for output in cell.outputs:
        if not SKIPPED_OUTPUT.search(output.get("data", {}).get("text/html", "")):
            yield without_data(output)


def add_text(deck: Deck, text: str, is_exercise: bool) -> None:
    """A text cell: headings begin slides, lists stand on them, and what is left is for the speaker."""
    is_stated = False
    for block in blocks(text):
        if heading := HEADING.match(block):
            deck.begin(heading[0], "subslide" if heading[1] == "###" else "slide")
            is_stated = heading[1] == "#" or heading[2].startswith(problems.TITLE)
        elif title := TITLE.match(block):
            deck.begin(f"### {title[1]}", "subslide")
        elif is_stated or is_exercise or SHOWN_BLOCK.match(block):
            deck.text(block)
        else:
            deck.text(block, "notes")


def add_code(deck: Deck, cell: NotebookNode, tags: list[str]) -> None:
    """A code cell: its question, or its code if that stands in the page, and what it shows."""
    if asked := prediction(cell):
        question, choices, answer = asked
        deck.make_room()
        listed = f'<p class="choices">{" · ".join(map(escape, choices))}</p>' if choices else ""
        deck.html(f'<div class="ask"><p>{question}</p>{listed}</div>')
        deck.make_room()
        deck.html(answer)
        return
    is_folded = "hide-input" in tags
    cell = new_code_cell(cell.source, outputs=list(shown_outputs(cell)), execution_count=cell.execution_count)
    is_sentence = all("text/markdown" in output.get("data", {}) for output in cell.outputs)
    if is_folded and (is_sentence or "lab-verdict" in str(cell.outputs)):
        if cell.outputs:
            deck.outputs(cell)
    elif is_folded:
        deck.make_room()
        deck.outputs(cell)
    else:
        deck.make_room()
        deck.add(cell, "-")


def slides(notebook: NotebookNode) -> NotebookNode:
    """The chapter's slides as a notebook, each cell with the kind of slide that it begins."""
    deck, is_exercise = Deck(), False
    for cell in notebook.cells:
        tags = cell.metadata.get("tags", [])
        if cell.cell_type == "markdown":
            text = bundle.prose(cell.source, solved="")
            heading = re.match(r"## (.*)", text)
            is_exercise = heading[1] == EXERCISES if heading else is_exercise
            add_text(deck, text, is_exercise)
        elif not any(tag == "setup" or tag.startswith(("exercise-", "solution-")) for tag in tags):
            add_code(deck, cell, tags)
    return new_notebook(cells=deck.cells)


def deck_of(path: Path) -> str:
    """The slides of one chapter as one HTML page. Raises FileNotFoundError if the site's scripts are not installed."""
    notebook = nbformat.read(path, as_version=4)
    has_plot = any("lab-plot" in str(cell.get("outputs", "")) for cell in notebook.cells)
    scripts = [REVEAL / "reveal.js", REVEAL / "plugin/notes.js", *([PLOTLY] if has_plot else []), DECK / "deck.js"]
    styles = [(REVEAL / "reveal.css").read_text("utf-8"), SHEET, (DECK / "deck.css").read_text("utf-8")]
    exporter = SlidesExporter(
        extra_template_basedirs=[str(DECK.parent)],
        template_name=DECK.name,
        exclude_input_prompt=True,
        exclude_output_prompt=True,
    )
    title = f"{path.stem[:2]} {bundle.title(path)}"
    texts = [script.read_text("utf-8").replace("</script", r"<\/script") for script in scripts]
    deck = {"title": title, "styles": styles, "scripts": texts}
    return exporter.from_notebook_node(slides(notebook), resources={"deck": deck})[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="01_graph_breaks; none: all")
    names = parser.parse_args().names
    FOLDER.mkdir(parents=True, exist_ok=True)
    for path in chosen(names):
        target = FOLDER / f"{path.stem}.html"
        target.write_text(deck_of(path), "utf-8")
        print(f"wrote {target.relative_to(ROOT)}, {target.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
