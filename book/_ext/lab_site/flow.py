"""How a chapter flows: text in a column, code behind marks in a gutter, notes in a margin.

- The code of folded cells waits behind one mark, ``</>``, beside what the cell shows; a cell that shows nothing waits
  behind the next mark. It is a ``<details>``, which needs no script. Which cells fold: ``book/tools/folds.py``.
- A sentence that a cell computes is a paragraph, and a verdict is a note beside the paragraph before it.
- What follows a prediction, up to the next heading or prediction, is its answer: ``predictions.js`` keeps it back until
  the reader has answered. Without a script it is in sight.
- The first screen has the question and the picture; the text follows, with the objectives in the margin, then the
  machine on which the page was made.
"""

import re
from collections.abc import Iterator, Sequence
from html import escape, unescape

from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform

from .numbers import TIME
from .pages import html

MARGIN_FROM = 74
"""Characters in a line of code or of printed text from which on it needs the margin, too."""
CAPTION = re.compile(r"<(figcaption|caption|small).*?</\1>", re.DOTALL)
ORIGIN = re.compile(
    r"(?:\.? · |\. )?(?P<whole>(?P<how>recorded|measured live) on (?:NVIDIA )?(?P<device>[^·<]+?) · "
    r"(?P<torch>torch [\d.]+)[^<]*? · (?P<date>\d{4}-\d\d-\d\d))"
)
TAG = re.compile(r"<(script|style).*?</\1>|<[^>]+>", re.DOTALL)
OBJECTIVES = "What you will be able to do"
LISTING = re.compile(r"<pre>.*?</pre>", re.DOTALL)
WIDE = ("lab-drawing", "m-body", "lab-explorer", "lab-stages")


class box(nodes.General, nodes.Element):
    """An HTML element, "tag" and "classes", around what it holds."""


def open_box(self, node):
    self.body.append(f'<{node["tag"]} class="{" ".join(node["classes"])}">')


def close_box(self, node):
    self.body.append(f"</{node['tag']}>")


# ---- cells ---------------------------------------------------------------------------------------------------------


def is_cell(node: nodes.Node | None) -> bool:
    return isinstance(node, nodes.container) and node.get("nb_element") == "cell_code"


def cells(node: nodes.Node) -> list[nodes.container]:
    return list(filter(is_cell, node.findall(nodes.container)))


def source(cell: nodes.container) -> nodes.container:
    return next(child for child in cell.children if child.get("nb_element") == "cell_code_source")


def outputs(cell: nodes.container) -> list[nodes.container]:
    return [child for child in cell.children if child.get("nb_element") == "cell_code_output"]


def shown(cell: nodes.container) -> str:
    """The HTML that a cell has stored."""
    return " ".join(raw.astext() for output in outputs(cell) for raw in output.findall(nodes.raw))


class Flow(SphinxPostTransform):
    default_priority = 301  # after the cells have their numbers
    formats = ("html",)

    def run(self, **kwargs):
        if not cells(self.document):
            return
        first_screen(next(self.document.findall(nodes.section)))
        mark_code(self.document)
        for cell in cells(self.document):
            place(cell)
        for cell in cells(self.document):
            if "lab-prediction" in shown(cell):
                keep_back(cell)
        for raw in list(self.document.findall(nodes.raw)):
            if "caption>" in raw.astext():
                raw.replace_self(html(with_short_origins(raw.astext())))


# ---- the first screen ----------------------------------------------------------------------------------------------


def first_screen(page: nodes.section) -> None:
    """Moves what comes before the picture (setup, the machine) behind the text, and the objectives beside the text."""
    before = [node for node in page.children if not isinstance(node, nodes.section)]
    at = next((at for at, node in enumerate(before) if is_cell(node) and "tag_opening" in node["classes"]), None)
    if at is None:
        return
    after = before[at + 1 :]
    written = after[: next((at for at, node in enumerate(after) if is_cell(node)), len(after))]
    last = (written or [before[at]])[-1]
    for cell in filter(is_cell, reversed(before[:at])):
        page.remove(cell)
        page.insert(page.index(last) + 1, cell)
    if note := objectives(written):
        aside = box("", tag="aside", classes=["lab-side", "lab-objectives"])
        page.insert(page.index(written[0]), aside)
        for node in note:
            page.remove(node)
            aside.append(node)


def objectives(written: Sequence[nodes.Node]) -> list[nodes.Node]:
    """Of what opens a chapter: the objectives below their title, and how it runs; the time to read goes to its head."""
    title = next((at for at, node in enumerate(written) if node.astext() == OBJECTIVES), None)
    runs = [node for node in written if isinstance(node, nodes.paragraph) and TIME.match(node.astext())]
    for paragraph in runs:
        said = next(iter(paragraph.findall(nodes.Text)))
        said.parent.replace(said, nodes.Text(TIME.sub("", said.astext())))
    return [] if title is None else [*written[title : title + 2], *runs]


# ---- code ----------------------------------------------------------------------------------------------------------


def mark_code(document: nodes.document) -> None:
    """Puts the code of each folded cell behind the mark of what is shown next."""
    waiting: list[nodes.container] = []
    for cell in cells(document):
        if "folded" in cell and not outputs(cell):
            waiting.append(cell)
            cell.parent.remove(cell)
            continue
        behind = [*waiting, cell] if "folded" in cell else waiting
        if behind:
            cell.insert(0, mark(behind))
        waiting = []
    if waiting:
        last = list(document.findall(nodes.section))[-1]
        last.append(box("", mark(waiting), tag="div", classes=["cell", "lab-carrier"]))


def mark(behind: Sequence[nodes.container]) -> box:
    """``</>``, and behind it the code of these cells, each with its number."""
    first, last = behind[0]["number"], behind[-1]["number"]
    where = f"cell {first}" if first == last else f"cells {first}–{last}"
    summary = html(
        f'<summary aria-label="Code: {escape(behind[-1]["folded"])}"><span aria-hidden="true">&lt;/&gt;</span>'
        f'<span class="lab-tip" aria-hidden="true">code, {where}</span></summary>'
    )
    listed = [box("", *list(heading_and_source(cell)), tag="div", classes=["lab-code"]) for cell in behind]
    return box("", summary, *listed, tag="details", classes=["lab-fold"])


def heading_and_source(cell: nodes.container) -> Iterator[nodes.Node]:
    """Takes a cell's number and its code out of it."""
    for node in cell.children[: cell.index(source(cell)) + 1]:
        cell.remove(node)
        yield node


# ---- what cells show -----------------------------------------------------------------------------------------------


def place(cell: nodes.container) -> None:
    """Gives what a cell shows its place: a sentence in the text, a verdict beside it, what is wide over the margin."""
    stored = shown(cell)
    written = [child for output in outputs(cell) for child in output.children]
    if "folded" in cell and written and all(isinstance(node, nodes.paragraph | nodes.bullet_list) for node in written):
        cell["classes"].append("lab-sentence")
    is_wide = any(sign in stored for sign in WIDE) and "lab-prediction" not in stored
    if "lab-verdict" in stored and not is_wide:
        to_margin(cell)
    for part in [cell] if "folded" in cell else outputs(cell):
        part["classes"] += ["lab-wide"] * is_wide
    for listing in cell.findall(nodes.literal_block):
        if longest(listing.astext()) >= MARGIN_FROM:
            listing.parent["classes"].append("lab-long")
    for output in outputs(cell):
        if not is_wide and longest("\n".join(LISTING.findall(shown(cell)))) >= MARGIN_FROM:
            output["classes"].append("lab-long")


def longest(text: str) -> int:
    """Characters in the longest line of a text, its HTML tags not counted."""
    return max(map(len, unescape(TAG.sub("", text)).splitlines()), default=0)


def to_margin(cell: nodes.container) -> None:
    """A verdict as a note beside the paragraph before it; below that paragraph where there is no margin."""
    cell["classes"] += ["lab-side", "lab-claim"]
    parent, at = cell.parent, cell.parent.index(cell)
    before = parent.children[at - 1] if at else None
    if isinstance(before, nodes.paragraph) or (is_cell(before) and "lab-sentence" in before["classes"]):
        parent.remove(cell)
        parent.remove(before)
        parent.insert(at - 1, box("", cell, before, tag="div", classes=["lab-beside"]))


# ---- predictions ---------------------------------------------------------------------------------------------------


def keep_back(cell: nodes.container) -> None:
    """Puts what follows, up to the next heading or prediction, into a box, below a line that says what is in it."""
    parent, at = cell.parent, cell.parent.index(cell) + 1
    after = parent.children[at:]
    ends = (place for place, node in enumerate(after) if isinstance(node, nodes.section) or has_prediction(node))
    answer = after[: next(ends, len(after))]
    for node in answer:
        parent.remove(node)
    parts = ", ".join(f"<span>{part}</span>" for part in content(cell, answer))
    veil = html(f'<p class="lab-veil"><span>Hidden until you answer:</span> {parts}.</p>')
    parent.insert(at, [veil, box("", *answer, tag="div", classes=["lab-follows"])])


def has_prediction(node: nodes.Node) -> bool:
    return any("lab-prediction" in shown(cell) for cell in cells(node))


def content(cell: nodes.container, answer: Sequence[nodes.Node]) -> list[str]:
    """What is in an answer: "1 figure", "65 words"."""
    made = [found for node in answer for found in cells(node)]
    stored = " ".join(map(shown, [cell, *made]))
    written = [paragraph.astext() for node in answer for paragraph in node.findall(nodes.paragraph)]
    verdicts = [TAG.sub(" ", shown(found)) for found in made if "lab-claim" in found["classes"]]
    explorers = stored.count('class="lab-explorer"')
    figures = 0 if explorers else stored.count('<figure class="lab-figure')
    tables = 0 if explorers or figures else stored.count("<table")
    words = sum(len(text.split()) for text in [*written, *verdicts])
    counts = {"figure": figures, "explorer": explorers, "table": tables, "word": words}
    return [f"{many} {name}{'s' * (many > 1)}" for name, many in counts.items() if many] or ["one line"]


# ---- where numbers come from ---------------------------------------------------------------------------------------


def with_short_origins(text: str) -> str:
    """Captions with the origin of their numbers as one short line, which has the whole as its title.

    >>> with_short_origins("<small>Sent · recorded on NVIDIA H200 · torch 2.11.0 · CUDA 13.0 · 2026-11-21</small>")
    ... # doctest: +ELLIPSIS
    '<small>Sent <span class="lab-origin" title="recorded on ...">◷ recorded · H200 · torch 2.11.0 · 2026-11-21...'
    """

    def short(found: re.Match) -> str:
        line = " · ".join(found[name] for name in ("how", "device", "torch", "date"))
        return f' <span class="lab-origin" title="{escape(found["whole"])}">◷ {line}</span>'

    return CAPTION.sub(lambda caption: ORIGIN.sub(short, caption[0]), text)


def setup(app):
    app.add_node(box, html=(open_box, close_box))
    app.add_post_transform(Flow)
