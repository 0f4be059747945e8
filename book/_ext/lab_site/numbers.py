"""A chapter's number wherever its title stands, since prose says "chapter 15": in the sidebar, above its title with its
part and the time that it takes, in the browser's tab, and in the way on and back. The sections of the page that is open
stand below its chapter in the sidebar.

Titles stay as they are; in lists a style shows the number, which an attribute holds.
"""

import os
import re
from html import escape
from pathlib import Path

import sphinx_external_toc.parsing
from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform

from .pages import html

ENTRY = re.compile(r'(<li class="toctree-l1[^"]*"><a) (class="[^"]*" href="([^"]*)")')
OPEN = re.compile(r'(<li class="toctree-l1 current active[^"]*"><a [^>]*>.*?</a>)', re.DOTALL)
SECTION = re.compile(
    r'<section id="([^"]+)">\s*(?:<span id="[^"]*"></span>\s*)*<h2>(.*?)<a class="headerlink"', re.DOTALL
)
WAY = re.compile(
    r'(<a class="(?:left-prev|right-next)"\s+href="([^"]*)"(?:(?!</a>).)*<p class="prev-next-title")(?=>)', re.DOTALL
)
LINK = re.compile(r"</?(?:a|span)\b[^>]*>")
FILE = re.compile(r"(?:^|/)(\d\d)_\w+(?:\.html(?:#.*)?)?$")
TIME = re.compile(r"Time: about (?:(\d+) minutes|an hour)\.\s*")


class Head(SphinxPostTransform):
    """The line above a chapter's title: its number, its part, how long it takes to read."""

    default_priority = 299  # before ``flow`` takes the time out of the text
    formats = ("html",)

    def run(self, **kwargs):
        number = FILE.search(self.env.docname)
        if not number:
            return
        parts = [f"<b>Chapter {number[1]}</b>", *map(escape, captions(Path(self.env.srcdir), self.env.docname))]
        for paragraph in self.document.findall(nodes.paragraph):
            if time := TIME.match(paragraph.astext()):
                parts.append(f"{time[1] or 60} minutes to read")
                break
        line = " ".join(f"<span>{part}</span>" for part in parts)
        next(self.document.findall(nodes.section)).insert(0, html(f'<p class="lab-eyebrow">{line}</p>'))


def captions(root: Path, docname: str) -> list[str]:
    """The part of the book in which this page stands, if it is in one."""
    contents = sphinx_external_toc.parsing.parse_toc_yaml(root / "_toc.yml")
    return [part.caption for part in contents.root.subtrees if docname in map(str, part.items)]


def numbered(page: str, name: str) -> str:
    """The page of this file name with the numbers of chapters, and its own sections in the sidebar; a page that an
    earlier build has numbered stays as it is.

    >>> numbered('<li class="toctree-l1"><a class="reference" href="15_gspmd.html">GSPMD</a></li>', "index.html")
    '<li class="toctree-l1"><a data-number="15" class="reference" href="15_gspmd.html">GSPMD</a></li>'
    >>> page = '<title>A</title><li class="toctree-l1 current active"><a class="x" href="#">A</a></li>'
    >>> page += '<section id="b"><h2>B<a class="headerlink" href="#b">#</a></h2></section>'
    >>> once = numbered(page, "01_a.html")
    >>> "<title>01 A" in once, once.count("lab-sections"), numbered(once, "01_a.html") == once
    (True, 1, True)
    """

    def entry(found: re.Match) -> str:
        number = FILE.search(name if found[3] == "#" else found[3])
        return f'{found[1]} data-number="{number[1]}" {found[2]}' if number else found[0]

    def way(found: re.Match) -> str:
        number = FILE.search(found[2])
        return f'{found[1]} data-number="{number[1]}"' if number else found[0]

    page = WAY.sub(way, ENTRY.sub(entry, page))
    if '<ul class="lab-sections">' not in page:
        page = OPEN.sub(lambda found: found[0] + sections(page), page)
    own = FILE.search(name)
    is_named = own is None or page.partition("<title>")[2].startswith(f"{own[1]} ")
    return page if is_named else page.replace("<title>", f"<title>{own[1]} ", 1)


def sections(page: str) -> str:
    found = [(place, LINK.sub("", title)) for place, title in SECTION.findall(page)]
    items = "".join(f'<li><a href="#{place}">{title}</a></li>' for place, title in found)
    return f'<ul class="lab-sections">{items}</ul>' if items else ""


def apply(app, error):
    if error or app.builder.format != "html":
        return
    root = Path(app.outdir)
    for path in (*root.glob("*.html"), *root.glob("*/*.html")):
        page, times = path.read_text("utf-8"), path.stat()
        if (changed := numbered(page, path.name)) != page:
            path.write_text(changed, "utf-8")
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))  # Sphinx renews pages by their time


def setup(app):
    app.add_post_transform(Head)
    app.connect("build-finished", apply, priority=400)
