"""Are the pages of two builds of the site the same to a reader? What differs is listed, page by page.

    python book/tools/same_pages.py                 _build/html, by Jupyter Book, and _build/plain/html, by Sphinx alone
    python book/tools/same_pages.py ONE OTHER       two other folders; exits with 1 if anything differs

Of each page it compares what `VIEWS` names. A theme's own frame is left out, but for the sidebar and the buttons.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Callable
from difflib import SequenceMatcher
from pathlib import Path

from bs4 import BeautifulSoup, Tag

ROOT = Path(__file__).resolve().parents[2]
BUILDS = (ROOT / "_build/html", ROOT / "_build/plain/html")
OTHER = ("_static", "_sources")
"""Folders of a site whose HTML is no page of it."""
MOST_SHOWN = 3
PARTS = {
    "figures": "figure",
    "plots": ".lab-plot",
    "drawings": ".lab-drawing, .m-body",
    "predictions": ".lab-prediction",
    "explorers": ".lab-explorer",
    "verdicts": ".lab-verdict",
    "folds": "details",
    "cells": "div.cell",
    "listings": "pre",
    "tables": "table",
    "formulas": ".math",
}
"""What is counted in a page's text."""


def headings(page: Tag) -> list[str]:
    return [f"{each.name} {words(each)}" for each in article(page).select("h1, h2, h3, h4, h5, h6")]


def places(page: Tag) -> list[str]:
    """What a link may lead to."""
    return [str(each["id"]) for each in article(page).select("[id]")]


def links(page: Tag) -> list[str]:
    return [f"{words(each)} → {each['href']}" for each in article(page).select("a[href]")]


def parts(page: Tag) -> list[str]:
    text = article(page)
    return [name for name, selector in PARTS.items() for _ in text.select(selector)]


def text(page: Tag) -> list[str]:
    """A line for each piece of text, without its spaces at both ends."""
    return [line for line in map(words, article(page).find_all(string=True)) if line]


def sidebar(page: Tag) -> list[str]:
    return [f"{words(each)} → {each['href']}" for each in page.select(".bd-sidebar-primary nav a[href]")]


def buttons(page: Tag) -> list[str]:
    """What stands above a page, by where it leads or what it is called."""
    found = page.select(".bd-header-article a[href], .bd-header-article button")
    return [str(each.get("href") or each.get("aria-label") or words(each)) for each in found]


VIEWS: dict[str, Callable[[Tag], list[str]]] = {
    "title": lambda page: [words(page.title)],
    "headings": headings,
    "places": places,
    "parts": parts,
    "links": links,
    "text": text,
    "sidebar": sidebar,
    "buttons": buttons,
}


def article(page: Tag) -> Tag:
    """A page's text; of a page that has no frame, all of it."""
    return page.select_one("article.bd-article") or page


def words(piece: Tag | str | None) -> str:
    return " ".join((piece.get_text() if isinstance(piece, Tag) else str(piece or "")).split())


def differences(one: str, other: str) -> dict[str, list[str]]:
    """What differs between two pages of HTML, by the name of the view: lines with ``-``, of the first, or ``+``.

    >>> differences('<h1 id="a">A</h1>', '<h1 id="b">A</h1>')
    {'places': ['-a', '+b']}
    """
    first, second = (BeautifulSoup(page, "lxml") for page in (one, other))
    found = {name: changed(view(first), view(second)) for name, view in VIEWS.items()}
    return {name: lines for name, lines in found.items() if lines}


def changed(one: list[str], other: list[str]) -> list[str]:
    """Lines that one list has and the other has not at that place, in the order of a diff.

    >>> changed(["a", "b", "c"], ["a", "c", "d"])
    ['-b', '+d']
    """
    steps = SequenceMatcher(None, one, other).get_opcodes() if one != other else []
    return [
        line
        for kind, start, end, at, to in steps
        if kind != "equal"
        for line in (*(f"-{each}" for each in one[start:end]), *(f"+{each}" for each in other[at:to]))
    ]


def names(site: Path) -> set[str]:
    found = (path.relative_to(site) for path in site.rglob("*.html"))
    return {path.as_posix() for path in found if path.parts[0] not in OTHER}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="*", type=Path, metavar="FOLDER", help="two built sites")
    parser.add_argument("--all", action="store_true", help=f"every line that differs, not the first {MOST_SHOWN}")
    arguments = parser.parse_args()
    one, other = arguments.folders if len(arguments.folders) == 2 else BUILDS
    for site in (one, other):
        if not (site / "index.html").is_file():
            parser.error(f"there is no site in {site}: 'make book' and 'make book SPHINX=plain' build the two")
    pages = names(one), names(other)
    lines = [f"{name}: only in {one}" for name in sorted(pages[0] - pages[1])]
    lines += [f"{name}: only in {other}" for name in sorted(pages[1] - pages[0])]
    total, same = Counter[str](), 0
    for name in sorted(pages[0] & pages[1]):
        found = differences(*((site / name).read_text("utf-8") for site in (one, other)))
        same += not found
        for view, each in found.items():
            total[view] += 1
            shown = each if arguments.all else each[:MOST_SHOWN]
            more = [f"    … and {len(each) - len(shown)} more"] if len(each) > len(shown) else []
            lines += [f"{name}: {view}", *(f"    {line[:200]}" for line in shown), *more]
    print(*lines, sep="\n")
    counted = ", ".join(f"{view} on {count}" for view, count in total.items()) or "nothing"
    print(f"{len(pages[0] & pages[1])} pages, {same} the same; what differs: {counted}")
    return bool(lines)


if __name__ == "__main__":
    sys.exit(main())
