"""How a reader keeps the book: on paper, as Markdown, with a mark where they are; and how they report a cell."""

import re
from urllib.parse import parse_qs, urlsplit

import harness
import nbformat
import pytest
import yaml
from lab_site import bundle

CHAPTERS = harness.chapters()
FIRST, SECOND = (f"{name}.html" for name in CHAPTERS[:2])


def files(built):
    return built / "_static/markdown"


@pytest.mark.parametrize("name", CHAPTERS)
def test_a_chapter_as_markdown_holds_its_words_its_code_and_its_results(built, name):
    text = (files(built) / f"{name.rpartition('/')[2]}.md").read_text("utf-8")
    notebook = nbformat.read(harness.ROOT / f"{name}.ipynb", as_version=4)
    title = notebook.cells[0].source.split("\n")[0]
    assert text.startswith(title) and "<details" not in text and "```{" not in text and "{cite" not in text
    for cell in notebook.cells:
        if cell.cell_type == "code" and cell.source.strip():
            assert cell.source in text and f"*Cell {cell.execution_count}" in text
    assert all(heading in text for heading in re.findall(r"(?m)^## .*", "\n".join(c.source for c in notebook.cells)))
    fences = [line for line in text.splitlines() if line.startswith("```")]
    assert len(fences) % 2 == 0


def test_the_book_as_markdown_is_its_chapters_in_order(built):
    text = (files(built) / bundle.BOOK).read_text("utf-8")
    places = [text.index((files(built) / f"{name.rpartition('/')[2]}.md").read_text("utf-8")) for name in CHAPTERS]
    assert places == sorted(places)


def test_a_stored_figure_becomes_its_description_and_its_numbers():
    table = "<table><tr><th>n</th><th>a|b</th></tr><tr><td>1</td><td>2</td></tr></table>"
    html = f'<figure class="lab-figure">{table}</figure>'
    text = bundle.output({"data": {"text/plain": "Figure: two bars.", "text/html": html}})
    assert text == "Figure: two bars.\n\n| n | a\\|b |\n|---|---|\n| 1 | 2 |"


def test_prose_without_sphinx():
    assert bundle.prose('# T\n\n<details lang="es">\n<summary>x</summary>\n\ny\n\n</details>\n\nz') == "# T\n\nz"


def test_an_aside_is_open_on_paper():
    aside = '<details class="lab-aside">\n<summary>Why</summary>\n\nbecause\n\n</details>'
    assert bundle.prose(f"before\n\n{aside}\n\nafter") == "before\n\n**Why.**\n\nbecause\n\n\n\nafter"


def test_a_fence_is_longer_than_any_in_the_text():
    assert bundle.fenced("```python\n1\n```").startswith("````text\n")


def test_the_download_menu_offers_both_files(shared, address):
    page = shared(FIRST).page
    links = [link.get_attribute("href") for link in page.locator(".dropdown-download-buttons a[href$='.md']").all()]
    assert [link.rpartition("/")[2] for link in links] == [f"{CHAPTERS[0].rpartition('/')[2]}.md", bundle.BOOK]
    for link in links:
        assert page.request.get(f"{address}/notebooks/{link}").ok


def test_report_opens_an_issue_about_this_cell(shared):
    page = shared(FIRST).page
    reports = page.locator("a.lab-report")
    assert reports.count() == page.locator("a.lab-cell-number").count()
    repository = yaml.safe_load((harness.ROOT / "_config.yml").read_text("utf-8"))["repository"]["url"]
    fifth = page.locator("#cell-5 + a.lab-report")
    address = urlsplit(fifth.get_attribute("href"))
    asked = parse_qs(address.query)
    assert f"{address.scheme}://{address.netloc}{address.path}" == f"{repository}/issues/new"
    assert asked["title"] == ["00_eager_baseline, cell 5: "]
    assert asked["body"][0].endswith("notebooks/00_eager_baseline.ipynb, cell 5\n")


@pytest.mark.browser
def test_report_is_there_for_the_pointer_and_for_the_keyboard(shared):
    page = shared(FIRST).page
    clip = "link => getComputedStyle(link).clipPath"
    report = page.locator("div.cell > a.lab-report").first  # of code that stands in the page
    assert report.evaluate(clip) != "none"
    report.focus()
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Tab")
    assert report.evaluate(clip) == "none"
    report.locator("xpath=..").hover()
    page.locator("h1").first.focus()
    assert report.evaluate(clip) == "none"


def read(page, share):
    """From the beginning, screen by screen; each is there long enough to count."""
    page.evaluate(READING, share)


READING = """async (share) => {
  const seen = () => JSON.parse(localStorage.getItem("lab-progress"))?.chapters ?? {};
  const key = location.pathname.split("/").slice(-2).join("/").replace(".html", "");
  const page = () => document.documentElement.scrollHeight;
  for (let top = 1; top < share * page(); top += innerHeight * 0.9) {
    scrollTo({ top, behavior: "instant" });
    const part = Math.min(59, Math.floor((60 * (scrollY + innerHeight / 2)) / page()));
    while (seen()[key]?.[part] !== "1") await new Promise((go) => setTimeout(go, 50));
  }
}"""


@pytest.mark.browser
def test_progress_is_marked_kept_and_forgotten(visit):
    page = visit(SECOND).page
    marks = page.locator(".lab-read")
    assert marks.count() == 0
    read(page, 0.4)
    page.goto(re.sub(r"notebooks/.*", "book/index.html", page.url))
    assert re.fullmatch(r"4\d\s%", marks.inner_text())
    page.go_back()
    before = page.evaluate("localStorage.getItem('lab-progress')")
    page.evaluate("document.querySelector('#exercises').scrollIntoView()")
    page.wait_for_function("before => localStorage.getItem('lab-progress') !== before", arg=before)
    page.goto(re.sub(r"notebooks/.*", "book/index.html", page.url))
    assert re.fullmatch(r"[45]\d\s%", marks.inner_text()), "who jumps has not read what lies between"
    go_on = page.locator(".lab-reading a")
    assert "Go on with Graph breaks" in go_on.inner_text()
    go_on.click()
    page.wait_for_url(f"**/{SECOND}#*")
    page.wait_for_function("() => scrollY > 1000")
    page.go_back()
    page.get_by_role("button", name="Forget what I have read").click()
    assert marks.count() == 0 and page.evaluate("localStorage.getItem('lab-progress')") is None
    page.reload()
    assert marks.count() == 0 and page.locator(".lab-reading").count() == 0


@pytest.mark.browser
def test_after_a_chapter_that_was_read_comes_the_next(shared):
    page = shared(FIRST).page
    read(page, 1)
    page.goto(re.sub(r"notebooks/.*", "book/index.html", page.url))
    assert page.locator(".lab-read").inner_text() == "✓"
    assert page.locator(".lab-reading a").get_attribute("href").endswith(SECOND)


@pytest.mark.browser
def test_on_paper_are_the_pictures_and_no_folded_code(visit):
    page = visit("notebooks/21_inference.html", before=lambda p: p.add_init_script("print = () => (done = true)")).page
    page.locator("article details.lab-fold > summary:visible").first.click()
    page.keyboard.press("Control+p")
    page.wait_for_function("() => window.done")
    page.emulate_media(media="print")
    plots = page.locator(".lab-plot:not(details .lab-plot, .lab-panel .lab-plot)")
    assert plots.count() and all(plot.locator(".main-svg").first.is_visible() for plot in plots.all())
    assert not any(code.is_visible() for code in page.locator("details:is(.hide, .lab-fold) .cell_input").all())
    for away in (".bd-sidebar-primary", ".bd-header-article", ".lab-report", ".lab-language"):
        assert not page.locator(away).first.is_visible(), away
    assert len(page.pdf(format="A4")) > 50_000
