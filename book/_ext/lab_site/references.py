"""Chapters name the glossary's terms and the bibliography's entries by links, which read in every notebook program.

On the site a link becomes Sphinx's own reference, and one to nothing a warning.
``[bubbles](…/glossary.html#term-Bubble)`` is a term, ``([Ba et al., 2016](…/bibliography.html#cite-ba2016layer))`` a
citation in brackets, and ``[Ba et al. (2016)](…)`` one in the sentence. A sentence that a cell computes links a
chapter's notebook, ``[chapter 06](06_compile_modes.ipynb)``: here its page.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util import logging

logger = logging.getLogger(__name__)
GLOSSARY = Path("book/glossary.md")
BOOK = r"https://[\w.-]+/[\w.-]+/book/"
TERM = re.compile(r"\[([^][]+)\]\(" + BOOK + r"glossary\.html#([\w-]+)\)")
CITED = r"\[[^][]+\]\(" + BOOK + r"bibliography\.html#cite-([\w-]+)\)"
CHAPTER = re.compile(r"(?P<name>\d\d_\w+)\.ipynb(?P<place>#.*)?")
IN_BRACKETS = re.compile(rf"\({CITED}(?:; {CITED})*\)")


def terms(glossary: str) -> dict[str, str]:
    """The glossary's terms by their places on its page.

    >>> terms(":::{glossary}\\nKV cache\\n  Keys and values that are kept.\\n:::")
    {'term-KV-cache': 'KV cache'}
    """
    words = re.search(r"^:::\{glossary\}\n(.*?)^:::", glossary, re.MULTILINE | re.DOTALL)[1]
    return {f"term-{re.sub(r'[^A-Za-z0-9]+', '-', word)}": word for word in re.findall(r"^\S.*", words, re.MULTILINE)}


def as_roles(text: str, words: Mapping[str, str]) -> str:
    """A chapter's text, or the JSON that holds it, with roles in the place of links."""
    text = TERM.sub(lambda link: f"{{term}}`{link[1]} <{words.get(link[2], link[2])}>`", text)
    text = IN_BRACKETS.sub(lambda found: f"{{cite:p}}`{','.join(re.findall(CITED, found[0]))}`", text)
    return re.sub(CITED, r"{cite:t}`\1`", text)


def read(app: Sphinx, document: str, source: list[str]) -> None:
    if document.startswith("notebooks/"):
        source[0] = as_roles(source[0], terms((Path(app.srcdir) / GLOSSARY).read_text("utf-8")))


class ComputedLinks(SphinxPostTransform):
    """Links to chapters in what cells show, which Sphinx takes for addresses elsewhere."""

    default_priority = 303
    formats = ("html",)

    def run(self, **kwargs: object) -> None:
        for link in self.document.findall(nodes.reference):
            if found := CHAPTER.fullmatch(link.get("refuri", "")):
                document = f"notebooks/{found['name']}"
                if document not in self.env.found_docs:
                    logger.warning("a cell links to %s, and no such chapter is there", found[0], location=link)
                    continue
                page = self.app.builder.get_relative_uri(self.env.docname, document)
                link["refuri"] = f"{page}{found['place'] or ''}"


def setup(app: Sphinx) -> None:
    app.add_post_transform(ComputedLinks)
    app.connect("source-read", read)
