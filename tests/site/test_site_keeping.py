"""How a reader keeps the book: on paper, as Markdown, with a mark where they are; and how they report a cell."""

import re
from urllib.parse import parse_qs, urlsplit

import harness
import nbformat
import pytest
import yaml
from bs4 import BeautifulSoup
from lab_site import bundle

CHAPTERS = harness.chapters()
FIRST, SECOND = (f"{name}.html" for name in CHAPTERS[:2])


HTML = re.compile(r"</?(?:a|b|br|code|details|div|figure|li|p|pre|section|span|script|sub|summary|sup|table|td|tr)\b")


def without_code(text):
    return re.sub(r"`[^`\n]*`", "", re.sub(r"(?ms)^(`{3,}).*?^\1$", "", text))


@pytest.mark.parametrize("name", CHAPTERS)
def test_a_chapter_as_markdown_holds_all_but_solutions_and_answers_after_the_question(built, name):
    text = (built / f"{name}.md").read_text("utf-8")
    cells = nbformat.read(harness.ROOT / f"{name}.ipynb", as_version=4).cells
    assert text.startswith(cells[0].source.split("\n")[0]) and "```{" not in text and "{cite" not in text
    assert not (found := HTML.search(without_code(text))), found
    assert all(heading in text for heading in re.findall(r"(?m)^## .*", "\n".join(cell.source for cell in cells)))
    assert sum(line.startswith("```") for line in text.splitlines()) % 2 == 0
    pictures = questions = 0
    for cell in cells:
        if cell.cell_type == "code" and cell.source.strip():
            is_solution = any(tag.startswith("solution-") for tag in cell.metadata.get("tags", []))
            assert (cell.source in text) != is_solution
            assert (f"*Cell {cell.execution_count}*" in text) != is_solution
        for output in cell.get("outputs", []):
            html = output.get("data", {}).get("text/html", "")
            plain = output.get("data", {}).get("text/plain", "")
            if 'class="lab-prediction"' in html:
                question, _, answer = plain.partition("\nAnswer: ")
                measured = answer.partition("\n")[0]
                asked = text.index(f"{bundle.QUESTION}\n\n{question}")
                told = text.index(f"{bundle.ANSWER}\n\n{measured}", asked)
                assert told < text.index(cell.source), "nor does the code give it away before"
                questions += 1
            elif html.startswith("<figure"):
                assert plain.split("\n\n")[0] in text
                pictures += 1
    assert pictures and questions and text.count(bundle.QUESTION) == questions


def test_the_book_and_its_index_have_the_chapters_in_order(built):
    text = (built / bundle.BOOK).read_text("utf-8")
    places = [text.index((built / f"{name}.md").read_text("utf-8")) for name in CHAPTERS]
    assert places == sorted(places)
    named = re.findall(r"^- \[.+\]\((.+)\)$", (built / bundle.INDEX).read_text("utf-8"), re.MULTILINE)
    assert named == [*(f"{name}.md" for name in CHAPTERS), bundle.BOOK]


def test_a_figure_becomes_its_numbers_and_what_markdown_would_read_itself_is_kept_apart():
    table = "<table><tr><th>n</th><th>a|b</th></tr><tr><td>1</td><td>2</td></tr></table>"
    html = f'<figure class="lab-figure">{table}</figure>'
    text = bundle.output({"data": {"text/plain": "Figure: two bars.", "text/html": html}})
    assert text == "Figure: two bars.\n\n| n | a\\|b |\n|---|---|\n| 1 | 2 |"
    assert bundle.fenced("```python\n1\n```").startswith("````text\n")


@pytest.fixture(scope="module")
def first(built):
    return BeautifulSoup((built / FIRST).read_text("utf-8"), "lxml")


def test_the_download_menu_offers_both_files(first):
    links = [link["href"] for link in first.select(".dropdown-download-buttons a[href$='.md']")]
    assert [link.rpartition("/")[2] for link in links] == [f"{CHAPTERS[0].rpartition('/')[2]}.md", bundle.BOOK]


def test_report_opens_an_issue_about_this_cell(first):
    assert len(first.select("a.lab-report")) == len(first.select("a.lab-cell-number"))
    repository = yaml.safe_load((harness.ROOT / "_config.yml").read_text("utf-8"))["repository"]["url"]
    address = urlsplit(first.select_one("#cell-5 + a.lab-report")["href"])
    asked = parse_qs(address.query)
    assert f"{address.scheme}://{address.netloc}{address.path}" == f"{repository}/issues/new"
    assert asked.pop("title") == ["00_eager_baseline, cell 5: "]
    (form,) = asked.pop("template")
    fields = yaml.safe_load((harness.ROOT / ".github/ISSUE_TEMPLATE" / form).read_text("utf-8"))["body"]
    assert asked == {"chapter": ["00_eager_baseline"], "cell": ["5"]} and set(asked) < {field["id"] for field in fields}


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
"""From the beginning, screen by screen; each is there long enough to count."""


@pytest.mark.browser
def test_progress_is_marked_kept_and_forgotten(visit):
    page = visit(SECOND).page
    marks = page.locator(".lab-read")
    assert marks.count() == 0
    page.evaluate(READING, 0.4)
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
@pytest.mark.slow
def test_after_a_chapter_that_was_read_comes_the_next(shared):
    page = shared(FIRST).page
    page.evaluate(READING, 1)
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
