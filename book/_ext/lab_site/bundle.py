"""The book to take away: each chapter, and the whole book, as one Markdown file, with what the cells showed.

Written into ``_static/markdown/``, and linked in each page's download menu. Pictures become their description and their
numbers; explorers their first panel.
"""

import json
import re
from pathlib import Path

from bs4 import BeautifulSoup, Tag

from .language import OPENING
from .status import notebooks

FOLDER = "_static/markdown"
BOOK = "the-compiled-training-step.md"
SPANISH = re.compile(OPENING.pattern + r".*?</details>\n*", re.DOTALL)
ASIDE = re.compile(r'<details class="lab-aside">\n<summary>(.*?)</summary>\n(.*?)</details>', re.DOTALL)


def prose(text: str) -> str:
    """A Markdown cell for a reader without Sphinx: in English, asides open."""
    return ASIDE.sub(r"**\1.**\n\2", SPANISH.sub("", text)).strip()


def fenced(text: str, language: str = "text") -> str:
    fence = "`" * max(3, *(len(run) + 1 for run in re.findall(r"`{3,}", text)), 3)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def table(found: Tag) -> str:
    """An HTML table as a Markdown table."""
    rows = [[cell.get_text(" ", strip=True).replace("|", "\\|") for cell in row(["th", "td"])] for row in found("tr")]
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|---" * len(rows[0]) + "|", *lines[1:]])


def output(stored: dict) -> str:
    """What a cell showed: its words, its numbers."""
    data = {kind: "".join(text) if isinstance(text, list) else text for kind, text in stored.get("data", {}).items()}
    if "text/markdown" in data:
        return data["text/markdown"]
    text = "".join(stored.get("text", "")) or data.get("text/plain", "")
    page = BeautifulSoup(data.get("text/html", ""), "html.parser")
    if page.find(class_="lab-explorer") or not page.find("table"):
        return text if page.find(class_=["lab-verdict", "lab-outcome", "lab-machine"]) else fenced(text)
    words = [text] if page.find("figure") else [found.get_text(" ", strip=True) for found in page("caption")]
    return "\n\n".join([*words, *map(table, page("table"))])


def chapter(notebook: dict) -> str:
    """One chapter as Markdown."""
    parts = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(prose(source))
        elif source.strip():
            kinds = [tag.replace("-", " ") for tag in cell["metadata"].get("tags", []) if tag.startswith("solution")]
            name = ", ".join([f"Cell {cell['execution_count']}", *kinds])
            parts.append(f"*{name}*\n\n{fenced(source, 'python')}")
            parts += [shown for shown in map(output, cell["outputs"]) if shown.strip()]
    return "\n\n".join(part for part in parts if part) + "\n"


def write(app, error):
    if error or app.builder.format != "html":
        return
    folder = Path(app.outdir) / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    texts = {path.stem: chapter(json.loads(path.read_text("utf-8"))) for path in notebooks(Path(app.srcdir))}
    for name, text in texts.items():
        (folder / f"{name}.md").write_text(text, "utf-8")
    whole = f"# {app.config.html_title}\n\n" + "\n\n---\n\n".join(texts.values())
    (folder / BOOK).write_text(whole, "utf-8")


def link(app, pagename, templatename, context, doctree):
    """The two files in the download menu, beside the notebook and the source."""
    for button in context.get("header_buttons", []):
        if button.get("label") == "download-buttons":
            own = pagename.startswith("notebooks/")
            files = [(f"{Path(pagename).name}.md", "This chapter, with its results")] if own else []
            for file, tooltip in (*files, (BOOK, "The whole book, with its results")):
                url = context["pathto"](f"{FOLDER}/{file}", 1)
                text = "book.md" if file == BOOK else ".md"
                button["buttons"].append(
                    {"type": "link", "url": url, "text": text, "tooltip": tooltip, "icon": "fas fa-file-lines"}
                )


def setup(app):
    app.connect("build-finished", write)
    app.connect("html-page-context", link, priority=700)  # after the theme has made the menu
