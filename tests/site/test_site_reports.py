"""The page of one's own model: six reports that stand for themselves, and what became of fifty architectures."""

import json

import harness
import pytest

pytestmark = pytest.mark.browser

PAGE = "book/your_model.html"
STORED = json.loads((harness.ROOT / "book/recordings/cpu-2-cores/architectures.json").read_text("utf-8"))["result"]


def test_each_card_leads_to_a_report_that_needs_nothing_else(visit):
    visited = visit(PAGE, width=390, height=844)
    page = visited.page
    links = page.locator(".lab-report-card a")
    assert links.all_text_contents() == list(STORED["reports"]) and links.count() == 6
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    links.first.click()
    page.wait_for_url("**/reports/*.html")
    assert page.locator("h1").text_content() == next(iter(STORED["reports"]))
    assert page.locator("script, link[rel=stylesheet]").count() == 0
    assert page.locator("section.bad, section.look, section.good, section.failed").count() >= 8
    assert page.evaluate("document.documentElement.scrollWidth") <= 390 and not visited.troubles


def test_what_became_of_each_of_the_fifty_is_on_the_page(visit):
    page = visit(PAGE, java_script_enabled=False).page
    whole = sum(not each["failed"] for each in STORED["rows"])
    assert f"Of 50 architectures, {whole} got every card." in page.locator("article").text_content()
    page.locator("details", has_text="All 50, one by one").locator("summary").click()
    names = page.locator("details[open] tbody tr td:first-child").all_text_contents()
    assert names == [each["name"] for each in STORED["rows"]]
