"""Every page in a browser with the network cut off: silent, fit for a phone, accessible, light."""

import harness
import pytest

from compile_lab import recordings
from compile_lab.report.survey_view import file_of

pytestmark = pytest.mark.browser

PAGES = harness.pages()
AXE = harness.ROOT / "book/node_modules/axe-core/axe.min.js"
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
    .filter((e) => !e.closest("pre, .highlight"))
    .map((e) => e.outerHTML.slice(0, 120))"""


def draw_all(page):
    """Lift every veil, scroll every figure into view and wait until it is drawn."""
    while (veiled := page.locator(".lab-prediction button.lab-show")).count():
        veiled.first.click()
    figures = page.locator(".lab-plot")
    for index in range(figures.count()):
        figures.nth(index).scroll_into_view_if_needed()
        page.locator(".lab-plot").nth(index).and_(page.locator(".lab-drawn")).wait_for(timeout=10_000)


@pytest.mark.parametrize("path", [*PAGES, "index.html"])
def test_a_page_asks_nobody_and_reports_no_error(visit, path):
    visited = visit(path)
    visited.page.wait_for_load_state("networkidle")
    draw_all(visited.page)
    assert visited.troubles == []


@pytest.mark.parametrize("path", PAGES)
def test_nothing_but_code_scrolls_sideways_on_a_phone(visit, path):
    page = visit(path, width=390, height=844).page
    draw_all(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.evaluate(STICKING_OUT) == []
    assert page.evaluate(SCROLLING) == []


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("path", PAGES)
def test_a_page_is_accessible(visit, path, theme):
    page = visit(path, color_scheme=theme, bypass_csp=True).page  # axe is a script that is put into the page
    assert page.evaluate("document.documentElement.dataset.theme") == theme
    draw_all(page)
    drawn = page.evaluate("[...document.querySelectorAll('.shapelayer path')].map(line => line.style.stroke)")
    assert theme == "light" or "rgb(0, 0, 0)" not in drawn, "a plot's line is black on black"
    page.add_script_tag(path=AXE)
    found = page.evaluate("async () => (await axe.run({ resultTypes: ['violations'] })).violations")
    serious = [
        f"{violation['id']}: {node['html'][:160]} {node['failureSummary'][:200]}"
        for violation in found
        if violation["impact"] in ("serious", "critical")
        for node in violation["nodes"]
    ]
    assert serious == []


@pytest.mark.parametrize("path", [f"{chapter}.html" for chapter in harness.chapters()])
def test_a_chapter_is_light(visit, path):
    weights = {}

    def count(page):
        session = page.context.new_cdp_session(page)
        names = {}
        session.send("Network.enable")
        session.on("Network.responseReceived", lambda e: names.update({e["requestId"]: e["response"]["url"]}))
        session.on(
            "Network.loadingFinished",
            lambda e: weights.update({names.get(e["requestId"], e["requestId"]): e["encodedDataLength"]}),
        )

    page = visit(path, before=count).page
    draw_all(page)
    page.wait_for_load_state("networkidle")
    heaviest = sorted(((round(size / 1000), url.rsplit("/", 1)[-1]) for url, size in weights.items()), reverse=True)
    print(f"{path}: {sum(weights.values()) / 1000:.0f} kB on the wire, of it {heaviest[:12]}")
    figures = page.locator(".lab-plot").count()
    assert any("plotly" in url for url in weights) == bool(figures), f"{figures} figures, and loaded: {heaviest}"
    assert sum(weights.values()) <= WEIGHT_LIMIT, heaviest


def test_the_site_has_these_pages_and_no_others(built):
    there = {path.relative_to(built).as_posix() for path in built.rglob("*.html") if "_static" not in path.parts}
    reports = {f"reports/{file_of(name)}" for name in recordings.load("architectures").result["reports"]}
    assert there == {*PAGES, *reports, "index.html"}
