"""What a reader does: choose, look at figures, change the theme, search, read without scripts."""

import functools
import itertools
import re
import time

import harness
import pytest

pytestmark = pytest.mark.browser

CHAPTERS = [f"{chapter}.html" for chapter in harness.chapters()]
WITH_FIGURES = [
    f"{chapter}.html"
    for chapter in harness.chapters()
    if "lab-plot" in (harness.ROOT / f"{chapter}.ipynb").read_text("utf-8")
]
SHOWN = "panel => panel.innerHTML"
AXES = ".lab-axis:not(.lab-rows)"  # blocks that are moved about have test_site_arranging to themselves


def text_of(path):
    return (harness.SITE / path).read_text("utf-8")


def choices(axis):
    """How many options an axis has, and a function that takes one by pointer. Of a range: where it is, and its end."""
    select, field = axis.locator("select"), axis.locator("input[type=number]")
    if field.count():
        ends = [field.input_value(), axis.locator("input[type=range]").get_attribute("max")]
        return 2, lambda index: field.fill(ends[index])
    if select.count():
        return select.locator("option").count(), lambda index: select.select_option(index=index)
    labels = axis.locator("label")
    return labels.count(), lambda index: labels.nth(index).click()


def plot_in_sight(page):
    """The first plot; where each stands behind a prediction, all are opened."""
    if not page.locator(".lab-plot:visible").count():
        page.locator(".lab-switch input").check()
    return page.locator(".lab-plot:visible").first


def asked(explorer, axis):
    """The axis, once it is there: some matter only where another one stands at an option of its own."""
    options = explorer.locator("select").first.locator("option")
    for index in range(options.count() if not axis.is_visible() else 0):
        explorer.locator("select").first.select_option(index=index)
        if axis.is_visible():
            break
    return axis


def shown_after(explorer, act):
    """What an explorer shows after a choice; a live one takes its time for it."""
    before = explorer.get_attribute("data-shown")
    act()
    until = time.monotonic() + harness.LONGEST_S
    is_live = explorer.locator(".lab-python").count()
    while is_live and explorer.get_attribute("data-shown") == before:
        assert time.monotonic() < until, f"nothing is shown: {explorer.locator('.lab-note[role=status]').inner_text()}"
        explorer.page.wait_for_timeout(50)
    return explorer.locator(".lab-panel").evaluate(SHOWN)


def opened(shared, path):
    """A chapter with all answers shown: an explorer behind a prediction that is open cannot be moved."""
    page = shared(path, color_scheme="light").page
    page.get_by_label("Show all answers").check()
    return page


@pytest.mark.parametrize("path", harness.sampled(CHAPTERS, harness.SAMPLE[:2]))
def test_every_option_of_every_explorer_changes_what_is_shown(shared, path):
    page = opened(shared, path)
    explorers = page.locator(".lab-explorer")
    assert explorers.count(), "a chapter has at least one explorer"
    for explorer in explorers.all():
        first = explorer.locator(".lab-panel").evaluate(SHOWN)
        axes = explorer.locator(AXES).all()
        assert axes or explorer.locator(".lab-rows").count(), "an explorer has at least one choice"
        for axis in axes:
            count, choose = choices(asked(explorer, axis))
            others = [shown_after(explorer, functools.partial(choose, index)) for index in range(1, count)]
            seen = len({first, *others})
            assert seen == count > 1, f"{axis.inner_text()!r}: {count} options show {seen} panels"
            shown_after(explorer, functools.partial(choose, 0))


@pytest.mark.parametrize("path", harness.sampled(CHAPTERS, harness.SAMPLE[2:]))
def test_explorers_work_with_the_keyboard_alone(shared, path):
    page = opened(shared, path)
    for explorer in page.locator(".lab-explorer").all():
        for axis in explorer.locator(AXES).all():
            control = asked(explorer, axis).locator("select, input:checked, input[type=range]").first
            there, back = ("ArrowRight", "ArrowLeft") if control.get_attribute("max") else ("ArrowDown", "ArrowUp")
            before = explorer.locator(".lab-panel").evaluate(SHOWN)
            control.focus()
            assert shown_after(explorer, functools.partial(page.keyboard.press, there)) != before
            shown_after(explorer, functools.partial(page.keyboard.press, back))
            assert axis.locator("select, input").first.evaluate("e => e === document.activeElement")


@pytest.mark.parametrize("path", harness.sampled(CHAPTERS))
def test_without_scripts_the_first_panel_is_readable_and_no_control_is_dead(visit, path):
    page = visit(path, java_script_enabled=False).page
    for explorer in page.locator(".lab-explorer").all():
        assert explorer.locator(".lab-panel").is_visible()
        assert explorer.locator(".lab-panel").inner_text().strip()
        assert explorer.locator("input, select, button").count() == 0
    exercises = page.locator(".cell.tag_in-page")
    assert exercises.count() and exercises.locator("textarea, button").count() == 0
    for figure in page.locator(".lab-figure").all():
        drawing = figure.locator(".lab-drawing svg, .m-body")  # needs no script, as a plot does
        assert (drawing if drawing.count() else figure.locator("summary")).is_visible()


MIDDLE = """mark => {
    const box = mark.getBoundingClientRect();
    if (!mark.classList.contains("js-line")) return [box.x + box.width / 2, box.y + box.height / 2];
    const half = mark.getPointAtLength(mark.getTotalLength() / 2).matrixTransform(mark.getScreenCTM());
    return [half.x, half.y];
}"""
"""Where a mark is: a line need not go through the middle of its box."""


def mark_in_hand(page):
    """Moves the pointer over the first figure's marks, until one shows its value."""
    marks = page.locator(".lab-drawn").first.locator(".point path, path.point, .scatterlayer .js-line").all()
    assert marks
    until = time.monotonic() + harness.LONGEST_S
    for mark in itertools.cycle(marks):  # again where the first way round was quicker than the page
        page.mouse.move(*mark.evaluate(MIDDLE))
        page.wait_for_timeout(150)
        if page.locator(".hoverlayer .hovertext").count():
            return
        assert time.monotonic() < until, "no mark of the figure shows its value under the pointer"


@pytest.mark.parametrize("path", harness.sampled(WITH_FIGURES))
def test_a_figure_is_drawn_answers_to_the_pointer_and_follows_the_theme_and_the_width(shared, path):
    page = shared(path, color_scheme="light").page
    plot = plot_in_sight(page)
    plot.scroll_into_view_if_needed()
    page.locator(".lab-plot.lab-drawn .main-svg").first.wait_for()
    assert plot.get_attribute("role") == "img" and len(plot.get_attribute("aria-label")) > 20
    mark_in_hand(page)
    colour = "p => p._fullLayout.font.color"
    light = plot.evaluate(colour)
    page.locator(".theme-switch-button:visible").click()  # system
    while page.evaluate("document.documentElement.dataset.theme") != "dark":
        page.locator(".theme-switch-button:visible").click()
    page.wait_for_function(f"before => ({colour})(document.querySelector('.lab-drawn')) !== before", arg=light)
    ink = page.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--lab-ink').trim()")
    assert plot.evaluate(colour) == ink
    width = plot.evaluate("p => p._fullLayout.width")
    page.set_viewport_size({"width": 500, "height": 900})
    page.wait_for_function("before => document.querySelector('.lab-drawn')._fullLayout.width < before", arg=width)


def test_what_is_damaged_says_so_and_the_rest_stays(visit):
    path = CHAPTERS[0]
    damaged, figures = re.subn(r'(vnd\.plotly\.v1\+json">)\{', r"\1", text_of(path))
    damaged, explorers = re.subn(r'(class="lab-choices">)\{', r"\1", damaged)
    assert figures and explorers

    def send_damaged(page):
        page.route(f"**/{path}", lambda route: route.fulfill(body=damaged, content_type="text/html"))

    page = visit(path, before=send_damaged).page
    explorer = page.locator(".lab-explorer").first
    assert "cannot be read" in explorer.locator(".lab-controls").inner_text()
    assert explorer.locator(".lab-panel").inner_text().strip()
    figure = page.locator(".lab-figure:has(.lab-plot:visible)").first
    figure.scroll_into_view_if_needed()
    figure.locator(".lab-message").wait_for()
    assert "damaged" in figure.locator(".lab-message").inner_text()
    assert figure.locator("table").is_visible()


def draws_before_it_prints(page, ask):
    undrawn = page.locator(".lab-plot:visible:not(.lab-drawn)")
    assert undrawn.count(), "nothing was left to draw"
    ask()
    page.wait_for_function("() => window.printed")
    assert page.locator(".lab-plot:visible").count() and not undrawn.count()


def test_printing_waits_until_every_figure_is_drawn_and_shows_it_on_white(visit):
    printing = "window.print = () => (window.printed = true)"
    page = visit(CHAPTERS[0], color_scheme="dark", before=lambda page: page.add_init_script(printing)).page
    draws_before_it_prints(page, lambda: page.locator("[data-lab-print]").dispatch_event("click"))
    page.reload()
    draws_before_it_prints(page, lambda: page.keyboard.press("Control+p"))
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate("document.documentElement.dataset.theme") == "light"
    for figure in page.locator(".lab-figure").all():
        assert figure.locator(".lab-drawn, .lab-drawing svg, .m-body").count() or figure.locator("table").is_visible()
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


IN_SIGHT = """listing => {
  const [lit, pane] = ["mark", "pre"].map((name) => listing.querySelector(name).getBoundingClientRect());
  return pane.top <= lit.top && lit.top <= pane.bottom;
}"""
"""What is lit stands in the part of its listing that is in sight, once that has been scrolled."""


def test_the_line_follower_opens_two_neighbouring_stages_and_goes_on_by_keys(visit):
    page = visit("notebooks/04_inductor_codegen.html", width=1440, height=900).page
    page.get_by_label("Show all answers").check()
    follower = page.locator(".lab-explorer", has=page.locator(".lab-stages"))
    tabs, listings = follower.get_by_role("tab"), follower.locator(".lab-stages > section")
    assert tabs.count() == listings.count() >= 9
    shown = "all => all.flatMap((each, at) => (each.checkVisibility() ? [at] : []))"
    assert listings.evaluate_all(shown) == [0, 1]
    tabs.first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert listings.evaluate_all(shown) == [2, 3] and tabs.nth(2).get_attribute("aria-selected") == "true"
    page.wait_for_function(IN_SIGHT, arg=listings.nth(2).element_handle())
    follower.locator(".lab-axis label").nth(1).click()
    assert listings.evaluate_all(shown) == [2, 3], "another line is looked at where the first was"
    page.set_viewport_size({"width": 390, "height": 844})
    assert listings.evaluate_all(shown) == [2]


def test_the_sidebar_says_which_section_is_read(shared):
    page = shared(CHAPTERS[3]).page
    link = page.locator(".lab-sections a").nth(2)
    link.click()
    page.wait_for_function("() => document.querySelector('.lab-sections a[aria-current]')")
    marked = page.locator(".lab-sections a[aria-current]")
    page.wait_for_function(
        "name => document.querySelector('.lab-sections a[aria-current]')?.textContent === name", arg=link.inner_text()
    )
    assert marked.count() == 1


SEARCHES = "input[type=search]:visible, .search-button-field:visible, .search-button:visible"


def test_search_finds_a_word_of_the_chapter(visit):
    page = visit("search.html?q=dispatcher").page
    page.locator("#search-results li").first.wait_for()
    title = re.search(r"<h1[^>]*>(.*?)<a", text_of(CHAPTERS[0])).group(1)
    assert title in page.locator("#search-results").inner_text()
    shown = page.locator("#search-results .context")
    shown.first.wait_for()
    page.wait_for_load_state("networkidle")  # every result has read its page by then
    assert not re.search(r"^(import|from) |= \w+\(", "\n".join(shown.all_inner_texts()), re.MULTILINE), "code of a cell"
    assert page.locator(SEARCHES).count() == 1


def test_the_site_starts_at_the_landing_page_which_leads_to_the_first_chapter(visit):
    visited = visit("index.html")
    page = visited.page
    page.wait_for_url("**/book/index.html")
    assert page.locator(SEARCHES).count() == 1
    page.wait_for_load_state("networkidle")
    assert visited.troubles == []
    page.get_by_role("link", name="Start with the first chapter").click()
    page.wait_for_url(f"**/{CHAPTERS[0]}")
