"""The page of verdicts: every claim that a chapter put to the test, and every silent error, as its cell printed it.

A cell tagged ``claim-C07`` prints a verdict (``compile_lab.page.claims``), a cell tagged ``silent-errors`` the cards of
``chapters.sharding_strategies.silent_errors_view``; this part only gathers what is stored.
"""

import html
import json
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from sphinx.util.docutils import SphinxDirective

from compile_lab.page.claims import VERDICTS, printed
from compile_lab.page.tables import marked_up

from . import status


def claims(path: Path) -> list[tuple[str, int, dict]]:
    """The claims of one notebook, in the order of their cells: id, number of the cell, its first output's data."""
    return [(tag.removeprefix("claim-"), *shown) for tag, *shown in _tagged(path, r"claim-C\d\d")]


def silent_errors(path: Path) -> list[tuple[int, dict]]:
    """Number and data of each cell of a notebook that printed silent errors."""
    return [(cell, data) for _, cell, data in _tagged(path, "silent-errors")]


def _tagged(path: Path, pattern: str) -> list[tuple[str, int, dict]]:
    """Tag, number and first output's data of the cells with such a tag that printed something."""
    return [
        (tag, cell["execution_count"], cell["outputs"][0]["data"])
        for cell in json.loads(path.read_text("utf-8"))["cells"]
        for tag in cell["metadata"].get("tags", [])
        if re.fullmatch(pattern, tag) and cell.get("outputs")
    ]


def verdicts(data: dict) -> dict[str, str]:
    """The stored verdicts of one claim, confirmed or refuted, by number: C20, or its parts C20a, C20b."""
    return {number: word for number, (word, _) in printed("".join(data["text/plain"])).items()}


def carried_away(root: Path) -> dict[str, str]:
    """A sentence to carry away of each claim, by its id."""
    return json.loads((root / "book/carried_away.json").read_text("utf-8"))


def with_others(numbers: Iterable[str], others: dict[str, dict]) -> str:
    """What other torches say of a claim's verdicts: the words, and why where one is another or the cell stopped."""
    said = []
    for version, kept in others.items():
        found = {number: kept["claims"][number] for number in numbers if number in kept["claims"]}
        if not found:
            continue
        words = {number: each.get("verdict", "not checked") for number, each in found.items()}
        parts = [f"{number} {word}" for number, word in words.items()] if len(words) > 1 else words.values()
        word = f"torch {version}: {', '.join(parts)}"
        whys = dict.fromkeys(why for each in found.values() if (why := each.get("evidence") or each.get("stopped")))
        why = "".join(f"<p>{marked_up(each)}</p>" for each in whys)
        said.append(f"<details><summary>{word}</summary>{why}</details>" if why else f"<p>{word}</p>")
    return f'<div class="lab-torches">{"".join(said)}</div>'


def counted(others: dict[str, dict], here: dict[str, str]) -> str:
    """How many of the verdicts `here` each torch repeats."""
    sentences = []
    for version, kept in others.items():
        found = {number: each.get("verdict") for number, each in kept["claims"].items()}
        same = sum(found.get(number) == word for number, word in here.items())
        stopped = sum(word is None for word in found.values())
        told = f"torch {version} gives {same} of these {len(here)} verdicts"
        told += f" and stops before {stopped}" if stopped else ""
        unasked = len(here.keys() - found.keys())
        sentences.append(f"{told} ({unasked} were not run)" if unasked else told)
    date = max(kept["provenance"]["date"] for kept in others.values())
    return (
        f"The same cells, run on a CPU with other releases (last on {date}): {'; '.join(sentences)}. Where a verdict "
        "rests on a recording from a GPU, its cell reads the same recording again: that is no test of the other one."
    )


class Counts(SphinxDirective):
    """``{lab-verdict-counts}``: how many there are of each kind, and what a script makes a search of (``cards.js``)."""

    def run(self):
        root = Path(self.env.srcdir)
        by_claim = [verdicts(data) for path in status.notebooks(root) for _, _, data in claims(path)]
        here = {number: word for each in by_claim for number, word in each.items()}
        words = Counter(here.values())
        split = sum(len(each) > 1 for each in by_claim)
        total = " and ".join(f"{words[word]} {word}" for word in VERDICTS)
        controls = (
            '<div class="lab-search-cards" data-cards="div.lab-claim" data-ask="Search the claims" '
            f'data-like="kernel, FSDP, C55 …" data-kinds="{" ".join(VERDICTS)}"></div>'
        )
        said = f"{len(by_claim)} claims, {split} of them split into parts: {len(here)} verdicts, {total}."
        said += f" {counted(status.other_torches(root), here)}"
        return self.parse_text_to_nodes("\n".join([said, "", "```{raw} html", controls, "```"]))


class Verdicts(SphinxDirective):
    """``{lab-verdicts}``: each with a link to its cell and what other torches say, a section for each chapter."""

    def run(self):
        root = Path(self.env.srcdir)
        for source in ("_toc.yml", "book/carried_away.json", "book/verdicts.json"):
            self.env.note_dependency(str(root / source))
        sentences, others = carried_away(root), status.other_torches(root)
        lines = []
        for path in status.notebooks(root):
            self.env.note_dependency(str(path))
            name = path.relative_to(root).as_posix()
            page = self.env.app.builder.get_relative_uri(self.env.docname, name.removesuffix(".ipynb"))
            found = claims(path)
            lines += [f"## [{status.title(path)}](/{name})", ""] if found else []
            for claim, cell, data in found:
                words = verdicts(data)
                kinds = " ".join(word for word in VERDICTS if word in words.values())
                opened = f'<div class="lab-claim" data-number="{claim}" data-kind="{kinds}">'
                sentence = re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(sentences[claim]))
                opened += f"<p><strong>{sentence}</strong></p>"
                link = f'<p><a href="{page}#cell-{cell}">The cell that tests {claim}</a></p>'
                link += f"{with_others(words, others)}</div>"
                cards = "".join(data["text/html"]).replace('lab-cards">', 'lab-cards" open>', 1)
                lines += ["```{raw} html", opened, cards, link, "```", ""]
        return self.parse_text_to_nodes("\n".join(lines), allow_section_headings=True)


class SilentErrors(SphinxDirective):
    """``{lab-silent-errors}``: the cards of the silent errors, with a link to the cell that ran them."""

    def run(self):
        root = Path(self.env.srcdir)
        lines = []
        for path in status.notebooks(root):
            self.env.note_dependency(str(path))
            name = path.relative_to(root).as_posix()
            page = self.env.app.builder.get_relative_uri(self.env.docname, name.removesuffix(".ipynb"))
            for cell, data in silent_errors(path):
                link = f'<p><a href="{page}#cell-{cell}">The cell that runs them</a></p>'
                cards = "".join(data["text/html"]).replace('lab-cards">', 'lab-cards" open>', 1)
                lines += ["```{raw} html", cards, link, "```", ""]
        return self.parse_text_to_nodes("\n".join(lines or ["No chapter has run them yet."]))


def setup(app):
    app.add_directive("lab-verdict-counts", Counts)
    app.add_directive("lab-verdicts", Verdicts)
    app.add_directive("lab-silent-errors", SilentErrors)
