"""The landing page, out of what the chapters' cells have stored: nothing on it is a second copy.

A cell's tag says where its output goes: ``opening`` is a chapter's picture, ``journey`` the road of one line,
``payoff`` a number that a chapter is read for.
"""

import json
import re
from pathlib import Path

from bs4 import BeautifulSoup
from docutils import nodes
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective

from . import status
from .flow import with_short_origins
from .pages import html

STAGE = re.compile(r"<h4>([^<]*) <small>")
TYPE = re.compile(r": &quot;\w+\[[\d, ]*\]&quot;")
"""Of a value in a graph, as printed: a card has no room for it."""
CARD = re.compile(r"^```\{lab-chapter\} (\S+)", re.MULTILINE)


def tagged(path: Path, tag: str) -> list[tuple[int, str]]:
    """The cells of a notebook with this tag: number, and their stored HTML."""
    cells = json.loads(path.read_text("utf-8"))["cells"]
    found = [cell for cell in cells if tag in cell["metadata"].get("tags", [])]
    return [(cell["execution_count"], stored_html(cell)) for cell in found]


def stored_html(cell: dict) -> str:
    return "".join("".join(output.get("data", {}).get("text/html", "")) for output in cell["outputs"])


def opening(path: Path) -> str:
    """A chapter's picture, for a card: the words that stand for it are the card's own."""
    shown = BeautifulSoup("".join(found for _, found in tagged(path, "opening")), "html.parser")
    pictures = shown.select(".lab-drawing svg, .m-body")
    if len(pictures) != 1:
        raise ExtensionError(f"{path.name}: one cell is tagged 'opening', and what it shows is a Drawing; not so here")
    for told in pictures[0].select("title"):
        told.decompose()
    for told in pictures[0].select("[title]"):
        del told["title"]
    return (
        str(pictures[0])
        if pictures[0].name == "svg"
        else f'<div class="m-figure">{pictures[0].decode_contents()}</div>'
    )


class FromChapters(SphinxDirective):
    """What all of these have in common: the notebooks, and links into their pages."""

    @property
    def root(self) -> Path:
        return Path(self.env.srcdir)

    def read(self, path: Path) -> Path:
        self.env.note_dependency(str(path))
        return path

    def chapter(self, named: str) -> Path | None:
        """The notebook of "04" or "04_inductor_codegen"; None where ``_toc.yml`` leaves out a chapter of the route.

        A name that the route has no card for is an error: nothing is left out for a slip of the pen.
        """
        self.env.note_dependency(str(self.root / "_toc.yml"))
        for path in status.notebooks(self.root):
            if named in (path.stem, path.stem[:2]):
                return self.read(path)
        cards = CARD.findall(Path(self.env.doc2path(self.config.root_doc)).read_text("utf-8"))
        if not any(named in (card, card[:2]) for card in cards):
            raise self.error(f"there is no chapter {named!r}: neither _toc.yml nor a card of the landing page names it")
        return None

    def address(self, path: Path) -> str:
        name = path.relative_to(self.root).with_suffix("").as_posix()
        return self.env.app.builder.get_relative_uri(self.env.docname, name)

    def show(self, text: str) -> list[nodes.Node]:
        """In a container, which the styles know."""
        return [nodes.container("", html(text), classes=["lab-shown"])]


class Output(FromChapters):
    """``{lab-output} 04_inductor_codegen journey``: what the cell of that chapter with that tag shows, and a link.

    Of a journey, the directive's lines say which chapter is about each of its stages: ``Bytecode | 01_graph_breaks``.
    """

    required_arguments = 2
    has_content = True

    def run(self):
        name, tag = self.arguments
        if not (path := self.chapter(name)):
            return []
        found = tagged(path, tag)
        if len(found) != 1:
            raise self.error(f"{name} has {len(found)} cells tagged {tag!r}, and one is needed")
        ((cell, shown),) = found
        about = dict(line.split(" | ") for line in self.content)
        stages = STAGE.findall(shown)
        if about and set(about) != set(stages):
            raise self.error(f"the stages are {', '.join(stages)}; the lines name {', '.join(about)}")
        chapters = {stage: self.chapter(chapter) for stage, chapter in about.items()}
        links = {stage: f'<a href="{self.address(at)}">{stage}</a>' for stage, at in chapters.items() if at}
        linked = STAGE.sub(lambda stage: f"<h4>{links.get(stage[1], stage[1])} <small>", shown)
        link = f'<p class="lab-note"><a href="{self.address(path)}#cell-{cell}">The cell that made this</a></p>'
        return self.show(f"{TYPE.sub('', linked) if about else shown}\n{link}")


class Payoff(FromChapters):
    """``{lab-payoff}``: the numbers that the chapters are read for, each a link to its cell."""

    def run(self):
        self.env.note_dependency(str(self.root / "_toc.yml"))
        items = [
            f'<li>{shown}<a href="{self.address(path)}#cell-{cell}">how</a></li>'
            for path in map(self.read, status.notebooks(self.root))
            for cell, shown in tagged(path, "payoff")
        ]
        return self.show(f'<ul class="lab-payoff">{with_short_origins("".join(items))}</ul>')


class Chapter(FromChapters):
    """``{lab-chapter} 00_eager_baseline`` and a question: a card with the chapter's number, title, picture.

    What is still to come has no notebook: ``{lab-chapter} 14 Sharding strategies``.
    """

    required_arguments = 1
    final_argument_whitespace = True
    has_content = True

    def run(self):
        name = self.arguments[0]
        question = " ".join(self.content)
        number, _, title = name.partition(" ")
        if title:
            head = f"<h4><span>{number}</span> {title} <em>coming</em></h4>"
            return [html(f'<div class="lab-card lab-coming">{head}<p>{question}</p></div>')]
        if not (path := self.chapter(name)):
            return []
        picture = f'<div class="lab-card-picture" aria-hidden="true">{opening(path)}</div>'
        head = f'<h4><span>{name[:2]}</span> <a href="{self.address(path)}">{status.title(path)}</a></h4>'
        return [html(f'<div class="lab-card">{picture}{head}<p>{question}</p></div>')]


class Route(SphinxDirective):
    """``{lab-route}``: cards side by side."""

    has_content = True

    def run(self):
        route = nodes.container(classes=["lab-route"])
        self.state.nested_parse(self.content, self.content_offset, route)
        return [route]


def setup(app):
    for name, directive in {"output": Output, "payoff": Payoff, "chapter": Chapter, "route": Route}.items():
        app.add_directive(f"lab-{name}", directive)
