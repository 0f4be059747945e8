"""The page of graph breaks: every card is there, and a field searches them."""

import json

import harness
import pytest

pytestmark = pytest.mark.browser

PAGE = "book/break_atlas.html"
ENTRIES = json.loads((harness.ROOT / "book/recordings/cpu-2-cores/break_atlas.json").read_text("utf-8"))["result"][
    "entries"
]


def test_all_entries_have_a_card_without_a_script_too(visit):
    page = visit(PAGE, java_script_enabled=False).page
    assert page.locator("details.lab-break").count() == len(ENTRIES)
    assert page.locator("[id^=reported_], details.lab-break").nth(19).get_attribute("id").startswith("reported_")
    reported = page.locator("[id^=reported_]")
    assert reported.count() == 20 and page.locator("[id^=reported_] .highlight").count() == 40
    targets = [each.get_attribute("href") for each in reported.locator("a[href^='#']").all()]
    assert len(targets) == 20 and all(page.locator(each).count() == 1 for each in targets)


def test_a_theme_is_chosen_by_keyboard(visit):
    visited = visit(PAGE)
    visited.page.get_by_label("Show").focus()
    visited.page.keyboard.type("data dep")
    left = visited.page.locator("details.lab-break:not([hidden])")
    assert left.count() == sum(each["theme"] == "data dependence" for each in ENTRIES) and not visited.troubles
    assert visited.page.locator("article h3:visible").all_text_contents() == ["Data dependence"]


def test_a_search_leaves_the_cards_with_all_words_and_their_headings(visit):
    visited = visit(PAGE)
    page = visited.page
    page.get_by_label("Search the atlas").fill("gb0170 sum")
    left = page.locator("details.lab-break:not([hidden])")
    assert 0 < left.count() < len(ENTRIES) and all("GB0170" in text for text in left.all_text_contents())
    assert page.locator(".lab-search-cards [role=status]").text_content() == f"{left.count()} of {len(ENTRIES)}"
    assert page.locator("article h3:visible").count() == page.locator("section:not([hidden]) > h3:visible").count() < 5
    page.get_by_label("Search the atlas").fill("")
    assert left.count() == len(ENTRIES) and not visited.troubles
