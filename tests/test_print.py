"""The book as a PDF and an EPUB: answers at the end, links that lead somewhere, every picture."""

import io
import os
import shutil
import subprocess
import zipfile
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import harness
import pikepdf
import print_book
import pytest
from bs4 import BeautifulSoup
from printed import articles, browser, epub, pdf
from printed.articles import PrintError

LIVE = "https://example.org/book"
TOC = """root: book/index
parts:
  - caption: Part one
    chapters: [{file: notebooks/01_first}, {file: notebooks/02_second}]
  - caption: Reference
    chapters: [{file: book/predictions}]
"""
FIRST = """<html lang="en"><body><article class="bd-article"><section id="first"><h1>A first chapter</h1>
<section id="asked"><h2>What is asked</h2><p id="plain">See <a href="02_second.html#told">the second</a>,
<a href="#plain">this</a>,
<a href="02_second.html#gone">a moved part</a>, <a href="../book/predictions.html#x">your answers</a>.</p>
<div class="cell"><details class="lab-fold"><summary>code</summary><div class="lab-code"><a class="lab-cell-number"
 href="#cell-4" id="cell-4">cell 4</a><pre>Prediction("How many?", 7)</pre></div></details>
<section class="lab-prediction">
<p class="lab-question">How many?</p><div class="lab-answer"><p>Answer: <strong>7</strong> sevens</p></div>
<script type="application/json" class="lab-asked">{"choices": ["6", "7"]}</script></section></div>
<p class="lab-veil">Hidden until you answer</p><div class="lab-follows"><p>What came of it.</p></div>
<div class="cell"><details class="lab-fold"><summary>code</summary><pre>folded = 1</pre></details>
<section class="lab-explorer"><div class="lab-controls">
<p>Shown is a = 1, one of 9 choices. The others: a = 2.</p></div>
<div class="lab-panel">the panel</div></section></div>
<figure class="lab-figure"><div class="lab-plot"><script type="application/json">{}</script></div>
<figcaption>Times</figcaption><details>
<summary>The same as a table</summary><table><tr><td>11</td></tr></table></details></figure></section>
<section id="exercises"><h2>Exercises</h2><h3>01.1 Do it</h3><div class="cell tag_solution-01.1"><a id="cell-9"
 class="lab-cell-number" href="#cell-9">cell 9</a><details class="hide above-input"><summary>Show</summary>
<pre>solved = 42</pre></details></div></section></section></article></body></html>"""
SECOND = """<html lang="en"><body><article class="bd-article"><section id="second"><h1>A second chapter</h1>
<section id="told"><h2>What is told</h2><p>Back to <a href="01_first.html#cell-9">a solution</a> and
<a href="01_first.html">the start</a>. <svg viewBox="0 0 9 9"><clipPath id="c"><path d="M0 0h9v9z"/></clipPath>
<path clip-path="url(#c)" d="M0 0h9"/></svg></p></section></section></article></body></html>"""
DRAWN = '<svg viewBox="0 0 7 7" xmlns="http://www.w3.org/2000/svg"><linearGradient id="g"/><path d="M0 0h7"/></svg>'


def site_of(folder: Path, language="en") -> Path:
    """A site of two pages, with the book's own sheets and no fonts worth the name."""
    for name in ("notebooks", "_static/vendor"):
        (folder / name).mkdir(parents=True)
    for name, text in (("01_first", FIRST), ("02_second", SECOND)):
        (folder / f"notebooks/{name}.html").write_text(text.replace('lang="en"', f'lang="{language}"'), "utf-8")
    (folder / "index.html").write_text("")
    (folder / "_toc.yml").write_text(TOC)
    for name in pdf.SHEETS:
        (folder / f"_static/{name}").write_text(".x { color: red } @media (min-width: 9px) { .wide { color: blue } }")
    for font in epub.FONTS:
        (folder / f"_static/vendor/{font}.woff2").write_bytes(b"wOF2")
        (folder / f"_static/vendor/{font}-LICENSE.txt").write_text("free")
    return folder


@pytest.fixture
def site(tmp_path):
    return site_of(tmp_path / "html")


@pytest.fixture
def book(site):
    return read(site)


def read(site, pictures=(DRAWN,)):
    return articles.read(site, site / "_toc.yml", LIVE, "The Book", {"notebooks/01_first": list(pictures)})


@pytest.fixture
def apart():
    """Calls in a thread of its own: the site's tests may hold a browser in this one, and Playwright allows just one."""
    if not any(map(shutil.which, browser.NAMES)):
        (pytest.fail if os.environ.get("REQUIRE_BROWSER") == "1" else pytest.skip)(browser.NO_BROWSER)
    with ThreadPoolExecutor(1) as thread:
        yield lambda function, *arguments: thread.submit(function, *arguments).result()


def printed_pdf(site):
    with browser.press(site) as press:
        return pdf.bind(read(site), press, "Printed on a day", "Somebody")


def bound_epub(site):
    edition = epub.Edition("Somebody", "What it is & is not", "1.0", "2026-11-30", ("a",))
    with browser.press(site) as press:
        return epub.bind(read(site), press, edition, site, "Printed on a day")


def test_answers_and_solutions_stand_at_the_end_with_links_there_and_back(book):
    first, second = book.articles
    text, answers = first.body.get_text(), first.answers.get_text()
    for hidden in ("sevens", "solved = 42", 'Prediction("How many?", 7)'):
        assert hidden not in text and hidden in answers, hidden
    assert "How many?" in text and "6 · 7" in text and "How many?" in answers and "01.1 Do it" in answers
    there = [link["href"][1:] for link in first.body.select(".printed-to-answer a")]
    back = [link["href"][1:] for link in first.answers.select(".printed-back a")]
    assert len(there) == 2 and all(first.answers.find(id=place) for place in there)
    assert len(back) == 2 and all(first.body.find(id=place) for place in back)
    assert second.answers is None


def test_nothing_is_folded_veiled_or_left_to_a_script(book):
    body = book.articles[0].body
    assert not body.select("script, details, .lab-veil, .lab-controls, .lab-plot")
    assert "folded = 1" in body.select_one(".printed-code").get_text() and "What came of it." in body.get_text()
    assert "Hola" not in body.get_text() and "Hidden until" not in body.get_text()
    live = body.select_one(".printed-live")
    assert "one of 9 choices." in live.get_text() and "The others" not in live.get_text()
    assert live.a["href"] == f"{LIVE}/notebooks/01_first.html#cell-4"


def test_links_lead_within_the_book_or_to_the_published_site(book):
    links = {link.get_text(): link["href"] for article in book.articles for link in article.body.select("p a[href]")}
    assert links["the second"] == "#p-02_second--told" and links["a moved part"] == "#p-02_second"
    assert links["your answers"] == f"{LIVE}/book/predictions.html#x" and links["this"] == "#p-01_first--plain"
    assert links["a solution"] == "#p-01_first--cell-9" and links["the start"] == "#p-01_first"
    assert articles.lost(book) == []
    book.articles[0].body.a["href"] = "#nowhere"
    assert articles.lost(book) == ["#nowhere"]


def test_a_plot_is_its_picture_and_without_one_its_table(site):
    drawn, undrawn = (read(site, pictures).articles[0].body.figure for pictures in ([DRAWN], [None]))
    assert drawn.svg and not drawn.table
    assert not undrawn.svg and undrawn.table.get_text() == "11"


def test_ids_are_each_pages_own_also_within_a_drawing(book):
    drawing = book.articles[1].body.svg
    assert drawing.find("path", attrs={"clip-path": True})["clip-path"] == "url(#p-02_second--c)"
    ids = [tag["id"] for tag in articles.tags(book, "[id]")]
    assert len(ids) == len(set(ids))


def test_what_is_missing_is_named_with_the_remedy(site, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["print_book.py", "pdf", "--site", str(tmp_path / "none")])
    assert print_book.main() == 2 and "Run 'make book' first" in capsys.readouterr().err
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(PrintError, match="apt install chromium"), browser.press(site):
        pass
    (site / "notebooks/02_second.html").unlink()
    with pytest.raises(PrintError, match=r"02_second\.html is not there.*make book"):
        read(site)


def test_another_language_has_its_words_and_an_unknown_one_is_refused(tmp_path):
    book = read(site_of(tmp_path / "es", language="es"))
    assert book.language == "es" and "Interactivo en la web" in book.articles[0].body.get_text()
    assert "Volver al texto" in book.articles[0].answers.get_text()
    with pytest.raises(PrintError, match=r"'xx'.*words\.json"):
        read(site_of(tmp_path / "xx", language="xx"))


def test_every_language_has_every_word():
    english, *others = (articles.words_of(language) for language in ("en", "es"))
    assert all(other.keys() == english.keys() and all(other.values()) for other in others)


def test_a_file_that_is_too_large_is_refused_with_its_largest_parts(book, monkeypatch):
    print_book.fits(book, b"x" * 10)
    monkeypatch.setattr(print_book, "MOST_BYTES", 9)
    with pytest.raises(PrintError, match=r"“A first chapter”.*“A second chapter”"):
        print_book.fits(book, b"x" * 10)


def test_a_sheet_for_pages_loses_what_is_for_wide_screens():
    kinds = {"(min-width: 9px)": "d{e:f}", "print": "g{h:i}", "(max-width: 9px)": "j{k:l}", "screen": "m{n:o}"}
    css = "a{b:c}" + "".join(f"@media {kind} {{{rule}}}" for kind, rule in kinds.items())
    flat = epub.flat(css)
    assert all(word in flat for word in ("b:c", "h:i", "k:l")) and "e:f" not in flat and "n:o" not in flat
    assert "print" not in flat


OPF = '<package xmlns="http://www.idpf.org/2007/opf"><manifest><item href="a.xhtml"/>{more}</manifest></package>'
PAGE = '<html xmlns="http://www.w3.org/1999/xhtml"><body><p id="x">{body}</p></body></html>'


@pytest.mark.parametrize(
    ("body", "more", "said"),
    [
        ('<a href="#x">sound</a>', "", None),
        ('<a href="b.xhtml#x">x</a>', "", "a.xhtml: b.xhtml#x leads nowhere"),
        ('<a href="#y">x</a>', "", "#y leads nowhere"),
        ('<b id="x"/>', "", "an id twice"),
        ("<br>", "", "not well-formed"),
        ("<script/>", "", "has a script"),
        ("", '<item href="c.xhtml"/>', "c.xhtml is in the manifest and not there"),
    ],
)
def test_an_epub_that_is_not_sound_says_why(body, more, said):
    files = {"content.opf": OPF.format(more=more).encode(), "a.xhtml": PAGE.format(body=body).encode()}
    found = epub.troubles(epub.packed(files))
    assert (said in found[0] and len(found) == 1) if said else found == []
    files["d.css"] = b""
    assert "d.css is not in the manifest" in epub.troubles(epub.packed(files))


@pytest.mark.browser
def test_a_small_book_is_printed_with_bookmarks_numbers_and_links(apart, site, tmp_path):
    made = apart(printed_pdf, site)
    with pikepdf.open(io.BytesIO(made)) as bound:
        with bound.open_outline() as outline:
            part, answers = outline.root
            assert [item.title for item in part.children] == ["01 A first chapter", "02 A second chapter"]
            assert [item.title for item in part.children[0].children] == ["What is asked", "Exercises"]
            assert [item.title for item in answers.children] == ["01 A first chapter"]
        places = pdf.places(bound)
        order = ("part-0", "p-01_first", "p-02_second", "answers", "p-01_first-answers")
        assert all(places[earlier] < places[later] for earlier, later in pairwise(order))
        assert pdf.lost_links(bound, places) == [] and "/StructTreeRoot" in bound.Root
        assert pdf.lost_links(bound, {}) and str(bound.docinfo["/Title"]) == "The Book"
    if shutil.which("pdftotext"):
        path = tmp_path / "book.pdf"
        path.write_bytes(made)
        pages = subprocess.run(["pdftotext", "-layout", path, "-"], capture_output=True, text=True).stdout.split("\f")
        assert "A first chapter" in pages[places["p-01_first"]] and "sevens" in pages[places["p-01_first-answers"]]
        assert str(places["p-02_second"] + 1) in pages[1] and "Contents" in pages[1]


@pytest.mark.browser
def test_a_small_epub_is_sound_and_its_first_chapter_links_to_the_second(apart, site):
    made = apart(bound_epub, site)
    assert epub.troubles(made) == []
    archive = zipfile.ZipFile(io.BytesIO(made))
    first = archive.read("book/p-01_first.xhtml").decode()
    assert 'href="p-02_second.xhtml#p-02_second--told"' in first and "linearGradient" in first
    assert 'href="p-01_first-answers.xhtml#p-01_first--cell-9"' in archive.read("book/p-02_second.xhtml").decode()
    opf = archive.read("book/content.opf").decode()
    assert 'href="p-02_second.xhtml" media-type="application/xhtml+xml" properties="svg"' in opf


def squeezed(text):
    return "".join(text.split())


def check_words_of_pdf(book, made, path):
    """Each chapter's title and each figure's stands on the chapter's pages, as pdftotext reads them."""
    path.write_bytes(made)
    pages = subprocess.run(["pdftotext", "-layout", path, "-"], capture_output=True, text=True).stdout.split("\f")
    with pikepdf.open(io.BytesIO(made)) as bound:
        starts = pdf.places(bound)
    begins = [*(starts[article.id] for article in book.articles), starts["answers"]]
    for article, (first, after) in zip(book.articles, pairwise(begins), strict=True):
        text = squeezed("".join(pages[first:after]))
        titles = [figure.select_one("figcaption, .m-title") for figure in article.body.select("figure")]
        wanted = [article.title, *(title.get_text() for title in titles if title)]
        assert len(wanted) > 3 and [title for title in wanted if squeezed(title) not in text] == []


def check_language(book, kind, made):
    """What a program reads of a file to know its language, and what the file says about itself."""
    if kind == "pdf":
        with pikepdf.open(io.BytesIO(made)) as bound, bound.open_outline() as outline:
            assert str(bound.Root.Lang) == book.language
            marks = [item.title for item in outline.root]
            assert marks == [*book.parts(), book.words["answers"]]
            assert [item.title for part in outline.root[:-1] for item in part.children] == [
                article.label for article in book.articles
            ]
        return
    archive = zipfile.ZipFile(io.BytesIO(made))
    opf = archive.read("book/content.opf").decode()
    assert f"<dc:language>{book.language}</dc:language>" in opf
    abstract = print_book.edition_of(harness.SITE, harness.ROOT / "CITATION.cff").abstract
    assert (abstract in opf) == (book.language == "en")
    pages = [archive.read(name).decode() for name in archive.namelist() if name.endswith(".xhtml")]
    assert all(f'lang="{book.language}"' in page for page in pages)


@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["pdf", "epub"])
@pytest.mark.parametrize("folder", [".", "es"], ids=["English", "Spanish"])
def test_two_real_chapters_keep_every_picture_and_every_link(apart, folder, kind, tmp_path, monkeypatch):
    if trouble := harness.stale():
        pytest.fail(trouble, pytrace=False)
    site = (harness.SITE / folder).resolve()
    wanted = ("notebooks/00_eager_baseline", "notebooks/07_backward_fusion")
    monkeypatch.setattr(
        articles, "order", lambda toc, all_of=articles.order: [p for p in all_of(toc) if p[1] in wanted]
    )
    book, made = apart(print_book.bound, kind, site, harness.ROOT / "_toc.yml")
    assert articles.lost(book) == [] and 100_000 < len(made) < print_book.MOST_BYTES / 5
    check_language(book, kind, made)
    if kind == "pdf" and shutil.which("pdftotext"):
        check_words_of_pdf(book, made, tmp_path / "book.pdf")
    if kind == "epub" and shutil.which("epubcheck"):
        (tmp_path / "book.epub").write_bytes(made)
        checked = subprocess.run(["epubcheck", tmp_path / "book.epub"], capture_output=True, text=True)
        assert checked.returncode == 0, checked.stderr
    for article in book.articles:
        page = (site / f"{article.name}.html").read_text("utf-8")
        there = BeautifulSoup(page, "html.parser").article
        kept = [place for place in (article.body, article.answers) if place]
        for kind_of in ("figure", ".lab-explorer"):
            assert sum(len(place.select(kind_of)) for place in kept) == len(there.select(kind_of)), kind_of
        plots = [plot for place in kept for plot in place.select(".printed-plot")]
        assert len(plots) == len(there.select(".lab-plot")) and all(plot.svg for plot in plots)
        assert len(article.answers.select(".printed-answer")) >= len(there.select(".lab-prediction"))
