"""The whole site in Spanish, under ``es/``: the finished English pages with other words, and a search of their own.

``book/spanish/*.po`` hold what the pages say, a sentence each (``compile_lab.page.messages`` says what a sentence is).
English that has changed is in no catalogue and stays English until somebody translates it: the page says how many such
sentences it has, and so does the build. All other files of the site serve both languages.
"""

import copy
import json
import re
import shutil
from functools import cache
from html import unescape
from pathlib import Path
from posixpath import normpath

import sphinx
from babel.messages.pofile import read_po
from docutils import nodes
from docutils.utils import new_document
from sphinx.search import IndexBuilder, js_index
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective
from sphinx.util.fileutil import copy_asset_file
from sphinx.util.osutil import canon_path

from compile_lab.page import messages

from . import live
from .pages import page_files
from .quotes import quoted

CATALOGUES = Path("book/spanish")
WORDS = Path("book/spanish.json")
"""What the site's scripts write, English -> Spanish: ``language.js`` reads it. ``{}`` stands for what is taken over."""
SENTENCES = Path("_static/sentences.json")
"""What Python in a page, and so a judge or an explorer, knows to say in Spanish (``live/controls.js`` asks for it)."""
MADE_OF_PARTS = ("judges", "refusals", "panels")
"""Catalogues of templates, for what no page says before a reader acts (``templates.py`` finds it)."""
FOLDER = "es"
OWN = ("_static/logo.svg",)
"""Files that a script of the theme asks for from beside the page."""
ADDRESS = re.compile(
    r'(\s(?:href|src|srcset|poster|action|data-[\w-]+)=")(?!#|/|[a-z][\w+.-]*:|")([\w./-]+\.\w+)((?:[?#][^"]*)?")'
)
SWITCH = re.compile(r'<a class="[^"]*\blab-language\b[^>]*>.*?</a>', re.DOTALL)
LEFT = '<p class="lab-left-english">{} frases de esta página siguen en inglés: falta traducirlas.</p>'
SEARCH = "search.html"
SEARCH_FILES = ("searchindex.js", "_static/language_data.js")
"""Of these the Spanish search has its own."""
NO_TEXT = re.compile(r"<(pre|script|style|svg)\b.*?</\1>", re.DOTALL)


@cache
def catalogue(root: Path) -> dict[str, str]:
    """English -> Spanish, of all sentences that are translated."""
    return {
        english: words for path in sorted((root / CATALOGUES).glob("*.po")) for english, words in read(path).items()
    }


def read(path: Path) -> dict[str, str]:
    """What one catalogue has translated."""
    with path.open("rb") as file:
        return {each.id: each.string for each in read_po(file) if each.id and each.string and not each.fuzzy}


def waiting(root: Path) -> tuple[int, int]:
    """How many sentences the catalogues hold, and how many of them wait for somebody to translate them."""
    every = 0
    for path in sorted((root / CATALOGUES).glob("*.po")):
        with path.open("rb") as file:
            every += len(read_po(file))
    return every, every - len(catalogue(root))


class Translated(SphinxDirective):
    """``{lab-translated}``: how much of the site is in Spanish."""

    def run(self) -> list[nodes.Node]:
        for path in (Path(self.env.srcdir) / CATALOGUES).glob("*.po"):
            self.env.note_dependency(str(path))
        every, left = waiting(Path(self.env.srcdir))
        return self.parse_text_to_nodes(f"Of {every:,} sentences {every - left:,} are in Spanish; {left} wait for it.")


def translated(source: str, page: str, pages: set[str], words: messages.Translation) -> str:
    """The page ``page`` ("notebooks/01_graph_breaks.html") in Spanish, for its place under ``es/``."""
    up = "../" * page.count("/")
    own = {*pages, *OWN, *(SEARCH_FILES if page == SEARCH else ())}

    def relocated(found: re.Match[str]) -> str:
        before, address, after = found.groups()
        there = normpath(f"{Path(page).parent.as_posix()}/{address}")
        return found[0] if there in own else f"{before}{up}../{there}{after}"

    parts = SWITCH.split(source, maxsplit=1)
    back = f'<a class="btn btn-sm lab-language" lang="en" hreflang="en" href="{up}../{page}">English</a>'
    text = back.join(ADDRESS.sub(relocated, messages.rewritten(part, words)) for part in parts)
    if words.left:
        text = text.replace("</h1>", "</h1>" + LEFT.format(len(words.left)), 1)
    text = text.replace('lang="en"', 'lang="es"', 1).replace(':language" content="en"', ':language" content="es"')
    return quoted(text)


class Search:
    """The Spanish pages' index, and Spanish word stems for the search that the theme has."""

    def __init__(self, app):
        env = copy.copy(app.env)  # in which the English index lies: what is fed to this one is kept apart from it
        for name in [name for name in vars(env) if name.startswith("_search_index_")]:
            setattr(env, name, {})
        self.app, self.index = app, IndexBuilder(env, "es", {}, "")

    def add(self, page: str, text: str) -> None:
        name = page.removesuffix(".html")
        article = re.search(r"<article\b.*?</article>", text, re.DOTALL)
        if name not in self.app.env.found_docs or not article:
            return
        document = new_document(name)
        for part in re.split(r"(?=<section [^>]*id=)", article[0]):
            section = nodes.section(ids=re.findall(r'^<section [^>]*id="([^"]+)"', part))
            if heading := re.search(r"<(h[1-6])\b.*?(?=<a class=.headerlink|</\1>)", part, re.DOTALL):
                section += nodes.title("", _plain(heading[0]))
            section += nodes.paragraph("", _plain(NO_TEXT.sub(" ", part)))
            document += section
        if titles := list(document.findall(nodes.title)):
            file = canon_path(self.app.env.doc2path(name, base=False))
            self.index.feed(name, file, titles[0].astext(), document)

    def write(self, folder: Path) -> None:
        (folder / "_static").mkdir(exist_ok=True)
        with (folder / "searchindex.js").open("w", encoding="utf-8") as file:
            self.index.dump(file, js_index)
        template = Path(sphinx.__file__).parent / "themes/basic/static/language_data.js.jinja"
        context = self.index.context_for_searchtool()
        copy_asset_file(str(template), str(folder / "_static"), context, self.app.builder.templates)


def in_scripts(source: str) -> set[str]:
    """What a page's explorers and predictions show before anything is computed."""
    scripts = ("".join(found) for found in messages.JSON.findall(source))
    return {each.text for script in scripts for each in messages.page_messages(script)}


def _plain(text: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", text)).split())


def write(app, error):
    """All pages in Spanish, from those that are finished."""
    if error or app.builder.format != "html":
        return
    site, root = Path(app.outdir), Path(app.srcdir)
    pages = {path.relative_to(site).as_posix(): path for path in page_files(site)}
    left, search = set[str](), Search(app)
    spoken = {k: v for name in MADE_OF_PARTS for k, v in read(root / CATALOGUES / f"{name}.po").items()}
    for page, path in pages.items():
        words = messages.Translation(catalogue(root))
        source = path.read_text("utf-8")
        text = translated(source, page, set(pages), words)
        left |= words.left
        target = site / FOLDER / page
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, "utf-8")
        if live.EXPLORER in text:
            spoken |= {text: words.known[text] for text in in_scripts(source) if text in words.known}
        search.add(page, text)
    search.write(site / FOLDER)
    for name in OWN:
        shutil.copy(site / name, site / FOLDER / name) if (site / name).exists() else None
    shutil.copy(root / WORDS, site / "_static" / WORDS.name)
    (site / SENTENCES).write_text(json.dumps(spoken, ensure_ascii=False, sort_keys=True), "utf-8")
    if left:
        logging.getLogger(__name__).info("%d sentences are not in Spanish yet: python book/tools/spanish.py", len(left))


def setup(app):
    app.add_directive("lab-translated", Translated)
    app.connect("build-finished", write, priority=960)  # after all that changes finished pages
