"""The chapters speak in the field's words: none that the book once used in their place is left for a reader to see."""

import re

import harness
import pytest
from bs4 import BeautifulSoup

OTHER_WORDS = re.compile(
    r"\b(products?|mend(s|ed|ing)?|told|foret(old|ells?|elling)|judged|beside|the book's step|lives nested"
    r"|whose neighbours?)\b",
    re.IGNORECASE,
)
"""A matmul is no product; a fault is fixed, a step is predicted, two numbers are compared or next to each other."""
ALLOWED = re.compile(
    r"told (\*\*)?apart|\b(inner|outer|dot|scalar|Kronecker|pointwise) products?|\bPartial\(product\)|\bP\(product\)"
    r"|beside the point",
    re.IGNORECASE,
)
"""Two times are "told apart" where their quartiles do not overlap; these products are no matmuls."""
CODE = "pre, code, script, style, nav, [font-family*='lab-code-face']"
BLOCKS = "p, li, td, th, div, section, summary, figcaption, caption, label, button, option, title, text, desc, dd, dt"
HEADINGS = "h1, h2, h3, h4"


def guilty(text: str) -> list[str]:
    """The sentences of a text in which such a word is left."""
    lines = (" ".join(line.split()) for line in text.split("\n"))
    sentences = (sentence for line in lines for sentence in re.split(r"(?<=[.?!;]) ", line))
    return [sentence for sentence in sentences if OTHER_WORDS.search(ALLOWED.sub("", sentence))]


def seen(html: str) -> str:
    """What a reader sees of a page's article, a line for each paragraph, cell or label; neither code nor navigation."""
    page = BeautifulSoup(html, "lxml")
    article = page.article or page
    for code in article.select(CODE):
        code.replace_with(" ")
    for block in article.select(f"{BLOCKS}, {HEADINGS}"):
        block.insert_before("\n")
        block.append("\n")
    return article.get_text()


@pytest.mark.parametrize("name", harness.chapters())
def test_a_chapters_page_has_no_word_that_the_field_does_not_use(name, built):
    assert guilty(seen((built / f"{name}.html").read_text("utf-8"))) == []


def test_a_word_is_found_where_a_reader_sees_it_and_nowhere_else():
    page = """<nav>products</nav><article>
        <p>The inner product is a sum. The head's <em>products</em> wait.</p> <pre>product = a @ b</pre>
        <table><tr><td>not told apart</td><td>mended</td></tr></table> <p>Call <code>told</code>.</p>
        <svg><text font-family="var(--lab-code-face)">beside</text><text>step, foretold</text></svg></article>"""
    assert guilty(seen(page)) == ["The head's products wait.", "mended", "step, foretold"]
    assert guilty(seen("<article><p>The matmuls are <b>told</b> apart; besides, production waits.</p></article>")) == []
