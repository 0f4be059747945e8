"""Every page in a browser with the network cut off: silent, fit for a phone, accessible, light."""

import harness
import pytest
from lab_site.moved import MOVED
from lab_site.pages import page_files

from compile_lab import recordings
from compile_lab.report.survey_view import file_of

pytestmark = pytest.mark.browser

PAGES = harness.pages()
WEIGHT_LIMIT = 700_000  # bytes of the chapter's page on the wire, gzip, plot library included

STICKING_OUT = """() => {
  const scrolls = (e) => e && (/(auto|scroll|hidden)/.test(getComputedStyle(e).overflowX) || scrolls(e.parentElement));
  return [...document.querySelectorAll(".bd-article-container *")]
    .filter((e) => e.getClientRects().length && e.getBoundingClientRect().right > innerWidth + 1)
    .filter((e) => !e.closest("svg") && !scrolls(e.parentElement))
    .map((e) => e.outerHTML.slice(0, 120));
}"""

SCROLLING = """() => [...document.querySelectorAll(".bd-article-container *")]
    .filter((e) => e.scrollWidth > e.clientWidth + 1 && /(auto|scroll)/.test(getComputedStyle(e).overflowX))
    .filter((e) => !e.closest("pre, .highlight") && !e.matches(".lab-drawing[tabindex='0']"))
    .map((e) => e.outerHTML.slice(0, 120))"""


PARTED = r"""() => {
  const unit = "%|×|bytes?|[kMGT]i?B(?:/s)?|[nµm]?s|min|GHz";
  const digits = "(?<![\\w.,/-])[+−-]?\\d+(?:[.,]\\d+)*(?:e[+−-]?\\d+)?";
  const number = new RegExp(`${digits}(?:[ \\u00a0](?:${unit})(?![\\w%]))?`, "g");
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const parted = [];
  while (walker.nextNode()) {
    const text = walker.currentNode;
    if (text.parentElement.closest("pre, script, noscript, svg") || !text.parentElement.checkVisibility()) continue;
    if (!text.parentElement.closest("article")) continue;
    for (const found of text.data.matchAll(number)) {
      const range = document.createRange();
      range.setStart(text, found.index);
      range.setEnd(text, found.index + found[0].length);
      const tops = [...range.getClientRects()].filter((box) => box.width).map((box) => box.top);
      if (tops.some((top) => Math.abs(top - tops[0]) > 3)) parted.push(`${found[0]}: ${text.data.slice(0, 60)}`);
    }
  }
  return parted;
}"""


CUT_OFF = """() => [...document.querySelectorAll(".lab-plot.lab-drawn")].flatMap((plot) => {
  const { left, right } = plot.getBoundingClientRect();
  return [...plot.querySelectorAll(".xtitle")].filter((title) => {
    const box = title.getBoundingClientRect();
    return box.left < left || box.right > right;
  }).map((title) => title.textContent);
})"""


def draw_all(page):
    """Lift every veil, scroll to the first figure and wait until all are drawn: the others follow by themselves."""
    if page.locator(".lab-switch input").count():
        page.locator(".lab-switch input").check()
    if page.locator(".lab-plot").count():
        page.locator(".lab-plot").first.scroll_into_view_if_needed()
        page.wait_for_function("() => !document.querySelector('.lab-plot:not(.lab-drawn)')")


@pytest.fixture(scope="module")
def desk(browser):
    """A browser that keeps its cache from page to page, and what each address weighed when it came over the wire."""
    context = harness.context_of(browser, viewport={"width": 1280, "height": 900}, color_scheme="light")
    yield context, {}
    context.close()


def counting(page, known):
    """What each address that the page loads weighs on the wire; what comes from the cache is `known` by then."""
    session = page.context.new_cdp_session(page)
    names, weights = {}, {}

    def came(event):
        name = names.get(event["requestId"], event["requestId"])
        weights[name] = known[name] = max(known.get(name, 0), event["encodedDataLength"])

    session.send("Network.enable")
    session.on("Network.responseReceived", lambda e: names.update({e["requestId"]: e["response"]["url"]}))
    session.on("Network.loadingFinished", came)
    return weights


@pytest.fixture(scope="module", params=PAGES)
def at_a_desk(request, desk, address):
    """A page in light, drawn, for several tests: its path, the visit and what it weighs."""
    context, known = desk
    visited = harness.Visit(context)
    weights = counting(visited.page, known)
    visited.page.goto(f"{address}/{request.param}", wait_until="load")
    draw_all(visited.page)
    visited.page.wait_for_load_state("networkidle")
    yield request.param, visited, weights
    visited.page.close()


@pytest.fixture(scope="module", params=harness.sampled(PAGES))
def on_a_phone(request, browser, address):
    """A page in dark, drawn, for several tests."""
    with harness.visiting(browser, address) as open_page:
        page = open_page(request.param, width=390, height=844, color_scheme="dark").page
        draw_all(page)
        yield page


def test_a_page_asks_nobody_and_reports_no_error(at_a_desk):
    _, visited, _ = at_a_desk
    assert visited.troubles == []


def test_a_chapter_is_light(at_a_desk):
    path, visited, weights = at_a_desk
    heaviest = sorted(((round(size / 1000), url.rsplit("/", 1)[-1]) for url, size in weights.items()), reverse=True)
    print(f"{path}: {sum(weights.values()) / 1000:.0f} kB on the wire, of it {heaviest[:12]}")
    figures = visited.page.locator(".lab-plot").count()
    assert any("plotly" in url for url in weights) == bool(figures), f"{figures} figures, and loaded: {heaviest}"
    if path.removesuffix(".html") in harness.chapters():
        assert sum(weights.values()) <= WEIGHT_LIMIT, heaviest


@pytest.mark.parametrize("at_a_desk", harness.sampled(PAGES, harness.SAMPLE[:2]), indirect=True)
def test_a_page_is_accessible(at_a_desk):
    page = at_a_desk[1].page
    assert page.evaluate("document.documentElement.dataset.theme") == "light"
    assert harness.violations(page) == []


@pytest.mark.matrix
@pytest.mark.parametrize("path", PAGES)
def test_a_page_in_dark_is_accessible(visit, path):
    page = visit(path, color_scheme="dark").page  # what a phone does not show: the sidebar, the page's contents
    draw_all(page)
    assert harness.violations(page) == []


@pytest.mark.parametrize("on_a_phone", harness.sampled(PAGES, harness.SAMPLE[:2]), indirect=True)
def test_a_page_in_dark_is_accessible_on_a_phone(on_a_phone):
    assert on_a_phone.evaluate("document.documentElement.dataset.theme") == "dark"
    drawn = on_a_phone.evaluate("[...document.querySelectorAll('.shapelayer path')].map(line => line.style.stroke)")
    assert "rgb(0, 0, 0)" not in drawn, "a plot's line is black on black"
    assert harness.violations(on_a_phone) == []


def test_on_a_phone_nothing_but_code_and_drawings_scrolls_sideways_and_axes_have_their_whole_titles(on_a_phone):
    assert on_a_phone.evaluate("document.documentElement.scrollWidth") <= 390
    assert on_a_phone.evaluate(STICKING_OUT) == []
    assert on_a_phone.evaluate(SCROLLING) == []
    assert on_a_phone.evaluate(CUT_OFF) == []


def test_on_a_phone_no_number_is_parted(on_a_phone):
    assert on_a_phone.evaluate(PARTED) == []
    on_a_phone.evaluate("document.querySelectorAll('button.lab-more').forEach((button) => button.click())")
    assert on_a_phone.evaluate(PARTED) == []


def test_the_site_has_these_pages_and_no_others(built):
    there = {path.relative_to(built).as_posix() for path in page_files(built)}
    reports = {f"reports/{file_of(name)}" for name in recordings.load("architectures").result["reports"]}
    assert there == {*PAGES, *reports, "index.html", *(f"{old}.html" for old in MOVED)}
    assert {path.relative_to(built / "es").as_posix() for path in (built / "es").rglob("*.html")} == there
