"""How a chapter reads, measured: how much of it is code, how long it is, where its first picture stands. What is
measured is printed (pytest -s)."""

import re

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


@pytest.mark.parametrize("name", harness.sampled(CHAPTERS))
def test_a_fold_is_one_thin_line_that_says_what_is_behind_it_and_opens_with_the_keyboard(shared, name):
    page = shared(f"{name}.html", width=1440, height=SCREEN).page
    folds = page.locator("article .tag_hide-input > details.hide")
    lines = folds.locator("summary").evaluate_all("lines => lines.map((line) => [line.clientHeight, line.innerText])")
    assert len(lines) > 5
    assert [line for line in lines if line[0] > 32 or not re.fullmatch(r"Code: \S.*", line[1].strip())] == []
    first = folds.first
    code = first.locator(".cell_input")
    assert not code.is_visible()
    first.locator("summary").focus()
    page.keyboard.press("Enter")
    assert code.is_visible() and code.locator("pre").inner_text().strip()
    page.emulate_media(media="print")
    assert not code.is_visible()


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
