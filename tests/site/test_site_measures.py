"""How a chapter reads, measured: how much of it is code, how long it is, where its first picture stands. What is
measured is printed (pytest -s)."""

import harness
import pytest

pytestmark = pytest.mark.browser

CHAPTERS = harness.chapters()
SCREEN = 900
MOST_CODE = 0.15
FIRST_PICTURE_BY = 2
FEWEST_PICTURES = 6

READ = """() => {
  const seen = (selector) => [...document.querySelectorAll(selector)].filter((element) => element.checkVisibility());
  const high = (selector) => seen(selector).reduce((sum, element) => sum + element.getBoundingClientRect().height, 0);
  const pictures = [...document.querySelectorAll("article :is(.lab-figure, .lab-explorer, img)")]
    .filter((picture) => !picture.parentElement.closest(".lab-figure, .lab-explorer"));
  return {
    page: document.documentElement.scrollHeight,
    article: high("article"),
    code: high("article .cell_input, article div.highlight:not(.cell div.highlight)"),
    pictures: pictures.length,
    first: pictures[0].getBoundingClientRect().bottom + scrollY,
  };
}"""


@pytest.mark.parametrize("name", harness.sampled(CHAPTERS))
def test_a_chapter_shows_more_than_it_lists(shared, name):
    read = shared(f"{name}.html", width=1440, height=SCREEN).page.evaluate(READ)
    share, screens = read["code"] / read["article"], read["page"] / SCREEN
    print(
        f"{name}: {screens:.1f} screens, {share:.1%} of it visible code, {read['pictures']} pictures and explorers, "
        f"the first seen whole after {read['first'] / SCREEN:.1f}"
    )
    assert share <= MOST_CODE
    assert read["pictures"] >= FEWEST_PICTURES
    assert read["first"] <= FIRST_PICTURE_BY * SCREEN


def test_a_page_takes_as_much_room_in_the_dark(visit):
    page = visit(f"{CHAPTERS[6]}.html", width=1440, height=SCREEN, color_scheme="light").page
    light = page.evaluate(READ)["page"]
    page.emulate_media(color_scheme="dark")
    page.wait_for_function("() => document.documentElement.dataset.theme === 'dark'")
    assert page.evaluate(READ)["page"] == light, "a rule of the theme's for the dark alone adds room"


IN_THE_FLOW = """() => {
  const text = document.querySelector("article section").getBoundingClientRect();
  const style = getComputedStyle(document.querySelector("article section"));
  const edge = text.right - parseFloat(style.paddingRight);
  return [...document.querySelectorAll("details.lab-fold:not(.lab-wide > details, .lab-claim > details) > summary")]
    .filter((mark) => mark.checkVisibility() && mark.getBoundingClientRect().left < edge - 1)
    .map((mark) => mark.getAttribute("aria-label"));
}"""


@pytest.mark.parametrize("name", harness.sampled(CHAPTERS))
def test_folded_code_takes_no_room_in_the_flow(shared, name):
    page = shared(f"{name}.html", width=1440, height=SCREEN).page
    marks = page.locator("article details.lab-fold:not([open]) > summary:visible")
    for width in (390, 1280, 1440):
        page.set_viewport_size({"width": width, "height": SCREEN})
        assert marks.count() > 5 and page.evaluate(IN_THE_FLOW) == [], width
        assert {box["height"] for box in map(type(marks).bounding_box, marks.all())} <= {24.0}, width
        assert marks.evaluate_all("all => all.every((mark) => getComputedStyle(mark).position === 'absolute')"), width


def test_a_mark_says_what_it_is_and_opens_with_the_keyboard_and_by_its_cells_address(shared):
    page = shared(f"{CHAPTERS[0]}.html", width=1440, height=SCREEN).page
    fold = page.locator("article details.lab-fold").first
    code, tip = fold.locator(".cell_input").first, fold.locator(".lab-tip")
    assert not code.is_visible()
    fold.locator("summary").focus()
    assert "code, cell" in tip.inner_text() and tip.bounding_box()["width"] > 30
    page.keyboard.press("Enter")
    assert code.is_visible() and code.locator("pre").inner_text().strip()
    page.keyboard.press("Enter")
    page.evaluate("cell => (location.hash = cell)", fold.locator(".lab-cell-number").first.get_attribute("id"))
    page.wait_for_function("() => document.querySelector('details.lab-fold').open")
    page.emulate_media(media="print")
    assert not code.is_visible()
    page.emulate_media(media="screen")


SMALLEST = """() => {
  const walker = document.createTreeWalker(document.querySelector("article"), NodeFilter.SHOW_TEXT);
  const away = "script, style, .lab-plot, .math, mjx-container, [aria-hidden=true], sub, sup";
  const small = [];
  while (walker.nextNode()) {
    const at = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || at.closest(away) || !at.checkVisibility()) continue;
    const svg = at.closest("svg[viewBox]");
    const scale = svg ? svg.getBoundingClientRect().width / svg.viewBox.baseVal.width : 1;
    const size = parseFloat(getComputedStyle(at).fontSize) * scale;
    if (size < 12.9) small.push(`${size.toFixed(1)} px: ${walker.currentNode.data.trim().slice(0, 40)}`);
  }
  return [...new Set(small)];
}"""


OUTSIDE = """() => [...document.querySelectorAll(".m-figure .m-body")].flatMap((body) => {
  const edge = body.getBoundingClientRect().right + 1;
  return [...body.querySelectorAll("*")]
    .filter((part) => part.checkVisibility() && part.getBoundingClientRect().right > edge)
    .map((part) => `${part.className}: ${part.textContent.slice(0, 40)}`);
})"""


CUT = """() => [...document.querySelectorAll("article :is(.cell_input, .cell_output) pre")]
  .filter((pre) => pre.checkVisibility() && pre.scrollWidth > pre.clientWidth + 1)
  .map((pre) => pre.textContent.slice(0, 60))"""


@pytest.mark.parametrize("name", harness.sampled([harness.documents()[0], *CHAPTERS]))
def test_at_any_width_letters_are_13_px_pictures_stay_in_their_column_and_no_code_is_cut(shared, name):
    page = shared(f"{name}.html", width=1440, height=SCREEN).page
    for width in (390, 1024, 1440):
        page.set_viewport_size({"width": width, "height": SCREEN})
        assert page.evaluate(SMALLEST) == [], width
        assert page.evaluate(OUTSIDE) == [], width
    page.evaluate("document.querySelectorAll('details.lab-fold').forEach((each) => (each.open = true))")
    for width in (390, 1440):
        page.set_viewport_size({"width": width, "height": SCREEN})
        assert page.evaluate(CUT) == [], width
    page.evaluate("document.querySelectorAll('details.lab-fold').forEach((each) => (each.open = false))")


SHIFTS = """new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) window.shifted = (window.shifted ?? 0) + entry.value;
}).observe({ type: "layout-shift", buffered: true })"""


@pytest.mark.parametrize("name", harness.sampled([harness.documents()[0], *CHAPTERS]))
def test_nothing_jumps_while_a_page_loads(visit, name):
    page = visit(f"{name}.html", width=1440, height=SCREEN, before=lambda page: page.add_init_script(SHIFTS)).page
    page.wait_for_load_state("networkidle")
    assert page.evaluate("window.shifted ?? 0") <= 0.05


def test_on_a_phone_a_card_names_each_value(shared):
    page = shared("notebooks/07_backward_fusion.html", width=390, height=844).page
    card = page.locator("table.lab-cards tbody tr").first
    named = card.locator("td[data-label]").evaluate_all(
        "cells => cells.map((cell) => getComputedStyle(cell, '::before').content)"
    )
    heads = page.locator("table.lab-cards").first.locator("thead th").all_inner_texts()
    assert len(named) > 2 and all(f'"{head}: "' in " ".join(named) for head in heads if head)
    page.set_viewport_size({"width": 1440, "height": SCREEN})
    assert page.locator("table.lab-cards").count() == 0


def test_a_long_table_opens_in_place_and_is_whole_on_paper(shared):
    page = shared("notebooks/07_backward_fusion.html", width=390, height=844).page
    page.set_viewport_size({"width": 1440, "height": SCREEN})
    page.locator("table:has(button.lab-more):visible").first.evaluate("table => (table.id = 'long')")
    table = page.locator("#long")
    rows = table.locator("tbody tr:not(:has(button))")
    shown = [row.is_visible() for row in rows.all()]
    assert shown[:4] == [True] * 4 and shown[-2:] == [True] * 2 and not any(shown[4:-2])
    page.emulate_media(media="print")
    assert all(row.is_visible() for row in rows.all())
    page.emulate_media(media="screen")
    table.locator("button").focus()
    page.keyboard.press("Enter")
    assert all(row.is_visible() for row in rows.all()) and table.locator("button").count() == 0
    assert page.evaluate("document.activeElement.tagName") == "TD"


def test_a_table_is_whole_without_scripts(visit):
    page = visit("notebooks/03_joint_graphs.html", java_script_enabled=False).page
    assert page.locator("article .cell_output table tbody tr").count() > 100
    assert page.locator("article button.lab-more, article .lab-folded, article .lab-cards").count() == 0
