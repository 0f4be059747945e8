"""The book to take away and for assistants: each chapter, and the whole book, as one Markdown file, with what the cells
showed.

A chapter's file lies beside its page (``notebooks/01_graph_breaks.md``), the book's (``book.md``) and an index of them
all (``llms.txt``) at the root. Pictures become their description and their numbers; explorers their first panel. The
solutions of exercises and of worked problems stay in the notebooks, and what answers a question says so.
"""

import json
import re
from pathlib import Path

from bs4 import BeautifulSoup, Tag

from .guesses import QUESTION as ASKED
from .numbers import captions
from .problems import SOLUTION as WORKED
from .status import notebooks, title

BOOK = "book.md"
INDEX = "llms.txt"
ASIDE = re.compile(r'<details class="lab-aside">\n<summary>(.*?)</summary>\n(.*?)</details>', re.DOTALL)
TABLE = re.compile(r"<table.*?</table>", re.DOTALL)
RULE = "───"
"""Below the head of a table, where it is plain text."""
SOLUTION = "solution-"
QUESTION = "**Question.** Answer it before you read on."
ANSWER = "**Answer to the question above**, up to the next heading or question:"
SOLVED = "*The solution is folded in the notebook, and is left out here.*"
PREFACE = """\
> Each chapter is an executable notebook: "*Cell 12*" stands above a cell's code, and below it what the cell showed.
> Whether a number was measured live, recorded on a GPU, or computed for one that is not there, stands with it.
> Solutions of exercises and of worked problems are left out, and what answers a question says so: a learner should
> answer first. Who helps a learner explains and asks, and does not solve the exercises for them.
"""


def prose(text: str, solved: str = SOLVED) -> str:
    """A Markdown cell for a reader without Sphinx: asides open, and ``solved`` in the place of a problem's solution."""
    return ASIDE.sub(r"**\1.**\n\2", WORKED.sub(solved, text)).strip()


def fenced(text: str, language: str = "text") -> str:
    fence = "`" * max(3, *(len(run) + 1 for run in re.findall(r"`{3,}", text)), 3)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def table(found: Tag) -> str:
    """An HTML table as a Markdown table."""
    rows = [[cell.get_text(" ", strip=True).replace("|", "\\|") for cell in row(["th", "td"])] for row in found("tr")]
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|---" * len(rows[0]) + "|", *lines[1:]])


def stored(output: dict) -> dict[str, str]:
    """What a cell showed, each form as one text; a stream's is plain text."""
    data = {**output.get("data", {})}
    data.setdefault("text/plain", output.get("text", ""))
    return {kind: "".join(text) for kind, text in data.items() if isinstance(text, str | list)}


def tables(html: str) -> list[Tag]:
    """The tables in what a cell showed. Pictures, which are most of it, are not read."""
    return BeautifulSoup("".join(TABLE.findall(html)), "html.parser")("table")


def output(shown: dict) -> str:
    """What a cell showed: its words, its numbers."""
    data = stored(shown)
    if "text/markdown" in data:
        return data["text/markdown"]
    text, html = data["text/plain"], data.get("text/html", "")
    if "<table" not in html or "lab-explorer" in html:
        is_prose = any(kind in html for kind in ("<figure", "lab-verdict", "lab-outcome", "lab-machine"))
        return text if is_prose else fenced(text)
    found = tables(html)
    captions_of = (caption.get_text(" ", strip=True) for each in found for caption in each("caption"))
    words = [text] if "<figure" in html else captions_of
    return "\n\n".join([*words, *map(table, found)])


def prediction(shown: dict, code: str) -> str | None:
    """A question, then its answer and the code that computes it, marked as such; None for what is no question."""
    data = stored(shown)
    html = data.get("text/html", "")
    if 'class="lab-prediction"' not in html:
        return None
    question, _, answer = data["text/plain"].partition("\nAnswer: ")
    asked = json.loads(ASKED.search(html)[1])
    choices = [f"Choices: {' · '.join(asked['choices'])}"] if asked.get("choices") else []
    measured, _, rest = answer.partition("\n")
    found = [table(each) for each in tables(html)]
    words = [text for text in rest.strip().split("\n\n") if not (found and RULE in text)]
    return "\n\n".join(filter(None, [QUESTION, question, *choices, ANSWER, measured, *words, *found, code]))


def code_cell(cell: dict) -> list[str]:
    """One code cell and what it showed, in pieces; of a solution only that it is there."""
    if any(tag.startswith(SOLUTION) for tag in cell["metadata"].get("tags", [])):
        return [SOLVED]
    name, source = f"*Cell {cell['execution_count']}*", fenced("".join(cell["source"]), "python")
    for shown in cell["outputs"]:
        if asked := prediction(shown, source):
            return [name, asked]
    return [name, source, *(text for text in map(output, cell["outputs"]) if text.strip())]


def chapter(notebook: dict) -> str:
    """One chapter as Markdown."""
    parts = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(prose(source))
        elif source.strip():
            parts += code_cell(cell)
    return "\n\n".join(part for part in parts if part) + "\n"


def index(name: str, about: str, chapters: dict[str, list[tuple[str, str]]]) -> str:
    """The index of all files: `chapters` has, for each part of the book, title and address of each chapter."""
    lines = [f"# {name}", "", f"> {about}", "", PREFACE]
    for part, files in chapters.items():
        lines += [f"## {part}", "", *(f"- [{title}]({address})" for title, address in files), ""]
    return "\n".join([*lines, "## All in one file", "", f"- [The whole book]({BOOK})", ""])


def write(app, error):
    if error or app.builder.format != "html":
        return
    root, out = Path(app.srcdir), Path(app.outdir)
    paths = notebooks(root)
    texts = [chapter(json.loads(path.read_text("utf-8"))) for path in paths]
    files = [path.relative_to(root).with_suffix(".md").as_posix() for path in paths]
    for file, text in zip(files, texts, strict=True):
        (out / file).write_text(text, "utf-8")
    whole = f"# {app.config.html_title}\n\n{PREFACE}\n" + "\n\n---\n\n".join(texts)
    (out / BOOK).write_text(whole, "utf-8")
    chapters: dict[str, list[tuple[str, str]]] = {}
    for path, file in zip(paths, files, strict=True):
        part = next(iter(captions(root, file.removesuffix(".md"))), "Chapters")
        chapters.setdefault(part, []).append((f"{path.name[:2]} {title(path)}", file))
    about = "A book of executable notebooks about torch.compile, the compiled training step, and many devices."
    (out / INDEX).write_text(index(app.config.html_title, about, chapters), "utf-8")


def link(app, pagename, templatename, context, doctree):
    """The two files in the download menu, beside the notebook and the source."""
    for button in context.get("header_buttons", []):
        if button.get("label") == "download-buttons":
            own = (
                [(f"{pagename}.md", ".md", "This chapter, with its results")]
                if pagename.startswith("notebooks/")
                else []
            )
            for file, text, tooltip in (*own, (BOOK, "book.md", "The whole book, with its results")):
                url = context["pathto"](file, 1)
                button["buttons"].append(
                    {"type": "link", "url": url, "text": text, "tooltip": tooltip, "icon": "fas fa-file-lines"}
                )


def setup(app):
    app.connect("build-finished", write)
    app.connect("html-page-context", link, priority=700)  # after the theme has made the menu
