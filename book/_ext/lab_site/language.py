"""The site in two languages: each page's opening in English and in Spanish, and the site's own words in Spanish.

A page that speaks Spanish too holds, below its title, ``<details lang="es">`` with a ``<summary>`` that gives the title
in Spanish. Here it becomes the Spanish opening, and what is written after it the English one, around the cells, up to
the first section. ``language.js`` shows one of them; without scripts the English one is there, the Spanish one opens.
"""

import json
import re
from pathlib import Path

from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform

from .pages import html

WORDS = Path("book/spanish.json")
OPENING = re.compile(r'<details lang="es">\s*<summary>(?P<summary>.*?)</summary>', re.DOTALL)
TITLE = re.compile(r"<b>(.*?)</b>")


class Openings(SphinxPostTransform):
    """Marks the two openings."""

    default_priority = 302  # after the first screen has its order
    formats = ("html",)

    def run(self, **kwargs):
        for start in list(self.document.findall(nodes.raw)):
            if found := OPENING.match(start.astext()):
                self.mark(start, found["summary"])

    def mark(self, start: nodes.raw, summary: str) -> None:
        page = start.parent
        after = page.children[page.index(start) + 1 :]
        end = next(node for node in after if isinstance(node, nodes.raw) and node.astext().strip() == "</details>")
        for run in runs(after[after.index(end) + 1 :]):
            page.insert(page.index(run[-1]) + 1, html("</div>"))
            page.insert(page.index(run[0]), html('<div class="lab-english lab-opening">'))
        page.replace(
            start,
            html(
                f'<details class="lab-spanish" lang="es"><summary>{summary}</summary>'
                '<div class="lab-opening" id="espanol">'
            ),
        )
        page.replace(end, html("</div></details>"))


def runs(after: list[nodes.Node]) -> list[list[nodes.Node]]:
    """What is written before the first section, parted where a cell or something shown stands."""
    found: list[list[nodes.Node]] = [[]]
    for node in after:
        if isinstance(node, nodes.section):
            break
        if node.get("nb_element") == "cell_code" or "lab-shown" in node.get("classes", ()):
            found.append([])
        else:
            found[-1].append(node)
    return [run for run in found if run]


def titles(root: Path) -> dict[str, str]:
    """The titles of all pages with a Spanish opening: English -> Spanish."""
    notebooks = [json.loads(path.read_text("utf-8")) for path in sorted(root.glob("notebooks/*.ipynb"))]
    pages = ["".join(notebook["cells"][0]["source"]) for notebook in notebooks]
    pages.append((root / "book/index.md").read_text("utf-8"))
    found = [(re.match(r"# (.*)", page), OPENING.search(page)) for page in pages]
    return {name[1]: TITLE.search(opening["summary"])[1] for name, opening in found if name and opening}


def words(root: Path) -> dict[str, str]:
    """What the site says in English -> in Spanish; {} stands for what is taken over, translated if it is known."""
    return json.loads((root / WORDS).read_text("utf-8")) | titles(root)


def write(app, error):
    if not error and app.builder.format == "html":
        text = json.dumps(words(Path(app.srcdir)), ensure_ascii=False, indent=0)
        (Path(app.outdir) / "_static/spanish.json").write_text(text, "utf-8")


def setup(app):
    app.add_post_transform(Openings)
    app.connect("build-finished", write)
