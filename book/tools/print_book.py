"""The book as one PDF or EPUB file, from the built site: nothing else is needed to read it.

    python book/tools/print_book.py pdf                     _build/print/compiled-training-step-en.pdf
    python book/tools/print_book.py epub                    _build/print/compiled-training-step-en.epub
    python book/tools/print_book.py pdf --site FOLDER       of another language's site, whose pages say which it is

Chromium or Chrome prints and draws; no TeX is needed. Code stands in sight, small, since paper cannot be unfolded.
An explorer is its stored picture with a link to where it moves. Answers and solutions stand at the end.
"""

import argparse
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import yaml
from printed import articles, browser, epub, pdf
from printed.articles import Book, PrintError
from repository import current, spellings

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "_build/html"
FOLDER = ROOT / "_build/print"
MOST_BYTES = 30_000_000


def plots(press: browser.Press, toc: Path) -> dict[str, list[str | None]]:
    """The SVG of each plot, by page."""
    names = [name for _, name in articles.order(toc)]
    return {name: press.pictures(name) for name in names if articles.page_of(press.site, name).select(".lab-plot")}


def edition_of(site: Path, citation: Path) -> epub.Edition:
    """What CITATION.cff says, and the day of the site."""
    said = yaml.safe_load(citation.read_text("utf-8"))
    day = datetime.fromtimestamp((site / "index.html").stat().st_mtime, UTC).date().isoformat()
    author = ", ".join(
        person.get("name") or f"{person['given-names']} {person['family-names']}" for person in said["authors"]
    )
    return epub.Edition(author, said["abstract"].strip(), said["version"], day, tuple(said["keywords"]))


def bound(kind: str, site: Path, toc: Path) -> tuple[Book, bytes]:
    """The book and its file's bytes. Raises PrintError for what is missing, or a link that leads nowhere."""
    if not (site / "index.html").is_file():
        raise PrintError(f"No site in {site}: the book is printed from the built one. Run 'make book' first")
    title = yaml.safe_load((ROOT / "_config.yml").read_text("utf-8"))["title"]
    edition = edition_of(site, ROOT / "CITATION.cff")
    with browser.press(site) as press:
        live = spellings(current())[2] + (f"/{site.name}" if site.parent == SITE else "")
        book = articles.read(site, toc, live, title, plots(press, toc))
        if lost := articles.lost(book):
            raise PrintError(f"Links that lead nowhere: {', '.join(lost[:5])}. Run 'make book', then this again")
        edition = replace(edition, abstract=book.words["about"].format(abstract=edition.abstract))
        said = book.words["printed"].format(date=edition.date, version=edition.version)
        if kind == "pdf":
            return book, pdf.bind(book, press, said, edition.author)
        return book, epub.bind(book, press, edition, site, said)


def fits(book: Book, made: bytes) -> None:
    """Raises PrintError for a file that is too large, with the chapters that have most in them."""
    if len(made) > MOST_BYTES:
        sizes = sorted(((len(str(article.body)), article.title) for article in book.articles), reverse=True)[:5]
        largest = ", ".join(f"“{title}” ({size / 1e6:.1f} MB of HTML)" for size, title in sizes)
        raise PrintError(f"{len(made) / 1e6:.1f} MB are more than {MOST_BYTES / 1e6:.0f}. The largest parts: {largest}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=("pdf", "epub"))
    parser.add_argument("--site", type=Path, default=SITE, metavar="FOLDER", help="the built site: _build/html")
    arguments = parser.parse_args()
    try:
        book, made = bound(arguments.kind, arguments.site.resolve(), ROOT / "_toc.yml")
        fits(book, made)
    except PrintError as error:
        print(error, file=sys.stderr)
        return 2
    FOLDER.mkdir(parents=True, exist_ok=True)
    target = FOLDER / f"compiled-training-step-{book.language}.{arguments.kind}"
    target.write_bytes(made)
    print(f"wrote {target.relative_to(ROOT)}, {len(made) / 1e6:.1f} MB, {len(book.articles)} chapters and pages")
    return 0


if __name__ == "__main__":
    sys.exit(main())
