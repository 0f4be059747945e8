"""What of the built site is not in Spanish yet, and its catalogues brought up to what the pages say now.

    python book/tools/spanish.py              lists what is missing; exits with 1 if anything is
    python book/tools/spanish.py update       writes it into book/spanish/*.po, to be translated there

Run it after ``make book``. A sentence stands in the catalogue of the first page that says it. Where English has
changed, ``update`` keeps the old Spanish, marked as fuzzy: the site takes it when somebody has taken the mark away.

What Python says in a page once a reader acts stands in catalogues of its own, as templates whose parts are ``{a}``,
``{b}`` …: what the judges of exercises answer, what instruments refuse, and what the panels of explorers say beyond
the choices that a page stores. The last are written by hand: ``update`` puts there, as it is, what no template fits.
"""

import argparse
import sys
from ast import literal_eval
from collections.abc import Mapping
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.pofile import read_po, write_po

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "_build/html"
sys.path[:0] = [str(ROOT / "book/_ext"), str(ROOT)]

from lab_site import templates  # noqa: E402
from lab_site.pages import page_files  # noqa: E402
from lab_site.spanish import CATALOGUES, catalogue, read  # noqa: E402

from compile_lab.page.messages import page_messages  # noqa: E402
from compile_lab.page.phrases import Phrases  # noqa: E402

PARTS = ("book/index", "notebooks/", "book/", "reports/", "")
"""Catalogues are filled in this order of the pages."""
OF_ITS_OWN = 5
"""A page with fewer sentences of its own has no catalogue of its own."""


def sentences(site: Path) -> dict[str, list[str]]:
    """What each page says that none before it has said: ``{"01_graph_breaks": [message, …]}``."""

    def order(path: Path) -> tuple[int, str]:
        name = path.relative_to(site).as_posix()
        return next(at for at, part in enumerate(PARTS) if name.startswith(part)), name

    known: set[str] = set()
    found: dict[str, list[str]] = {}
    for path in sorted(page_files(site), key=order):
        texts = dict.fromkeys(each.text for each in page_messages(path.read_text("utf-8")))
        new = [text for text in texts if text not in known]
        known |= set(new)
        name = path.stem if len(new) >= OF_ITS_OWN else "site"
        found.setdefault(name, []).extend(new)
    return found


def made_of_parts(known: Mapping[str, str]) -> dict[str, list[str]]:
    """The templates of what judges, instruments and panels say; for panels those that there are, and what none fits."""
    phrases, panels = Phrases(known), ROOT / CATALOGUES / "panels.po"
    unknown = [text for text in templates.by_panels(SITE) if text not in known and not phrases(text)]
    return {
        "judges": templates.by_judges(ROOT),
        "refusals": templates.by_refusals(ROOT),
        "panels": [*(read(panels) if panels.exists() else ()), *unknown, *sorted(phrases.left)],
    }


def updated(path: Path, texts: list[str], known: Mapping[str, str]) -> Catalog:
    """That page's catalogue with these messages, in their order."""
    template = Catalog()
    for text in texts:
        template.add(text)
    catalog = Catalog(locale="es")
    if path.exists():
        with path.open("rb") as file:
            catalog = read_po(file, locale="es")
    was: dict[str, tuple[str, ...]] = {}
    for message in catalog:  # babel reads the lines of what a message was as comments, and forgets them
        old = [line[2:].removeprefix("msgid ") for line in message.user_comments if line.startswith("| ")]
        was[message.id] = (literal_eval(" ".join(old)),) if old and message.id not in known else ()
    catalog.update(template)
    catalog.obsolete.clear()
    for message in catalog:
        message.user_comments.clear()
        message.previous_id = message.previous_id or was.get(message.id, ())
        if message.id in known:
            message.string = known[message.id]
            message.flags.discard("fuzzy")
            message.previous_id = ()
    return catalog


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("action", nargs="?", choices=["list", "update"], default="list")
    action = parser.parse_args().action
    if not (SITE / "book/index.html").exists():
        parser.error(f"there is no site in {SITE.relative_to(ROOT)}: run 'make book' first")
    known = catalogue(ROOT)
    pages = sentences(SITE) | made_of_parts(known)
    if action == "update":
        folder = ROOT / CATALOGUES
        folder.mkdir(exist_ok=True)
        for name, texts in pages.items():
            catalog = updated(folder / f"{name}.po", texts, known)
            with (folder / f"{name}.po").open("wb") as file:
                write_po(file, catalog, width=0, omit_header=True, include_previous=True)
        for path in folder.glob("*.po"):
            if path.stem not in pages:
                path.unlink()
    missing = [(name, text) for name, texts in pages.items() for text in texts if text not in known]
    for name, text in missing:
        print(f"{name}: {text}")
    print(f"{sum(map(len, pages.values()))} sentences, {len(missing)} not in Spanish")
    sys.exit(bool(missing))


if __name__ == "__main__":
    main()
