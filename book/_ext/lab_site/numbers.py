"""A chapter's number beside its title, in the sidebar and at the head of its page: prose says "chapter 15".

Titles stay as they are; a style shows the number, which an attribute holds.
"""

import os
import re
from pathlib import Path

ENTRY = re.compile(r'(<li class="toctree-l1[^"]*"><a) (class="[^"]*" href="([^"]*)")')
FILE = re.compile(r"(?:^|/)(\d\d)_\w+\.html(?:#.*)?$")


def numbered(page: str, name: str) -> str:
    """The page of this file name with the numbers of chapters.

    >>> numbered('<li class="toctree-l1"><a class="reference" href="15_gspmd.html">GSPMD</a></li>', "index.html")
    '<li class="toctree-l1"><a data-number="15" class="reference" href="15_gspmd.html">GSPMD</a></li>'
    """

    def entry(found: re.Match) -> str:
        number = FILE.search(name if found[3] == "#" else found[3])
        return f'{found[1]} data-number="{number[1]}" {found[2]}' if number else found[0]

    own = FILE.search(name)
    return ENTRY.sub(entry, page.replace("<h1>", f'<h1 data-number="{own[1]}">') if own else page)


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
    app.connect("build-finished", apply, priority=400)
