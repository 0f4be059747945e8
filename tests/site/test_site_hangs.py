"""The hang lab's page: every case has its card, with or without a script, and fits a phone."""

import json

import harness
import pytest

pytestmark = pytest.mark.browser

PAGE = "book/hang_lab.html"
CASES = json.loads((harness.ROOT / "book/recordings/cpu-2-cores/hangs.json").read_text("utf-8"))["result"]["cases"]


def test_each_case_has_a_card_with_both_answers_and_its_cure_without_a_script_too(visit):
    page = visit(PAGE, java_script_enabled=False).page
    cards = page.locator("details.lab-hang")
    assert cards.count() == len(CASES) >= 8
    for at, case in enumerate(CASES):
        told = cards.nth(at).text_content()
        assert case["ours"] in told and case["expected"] in told and "What torch says" in told
        assert cards.nth(at).locator(".lab-mark").count() == len(case["marked"]) > 0


def test_open_cards_fit_a_phone(visit):
    visited = visit(PAGE, width=390, height=844)
    visited.page.evaluate("document.querySelectorAll('.lab-hang, .lab-hang details').forEach(each => each.open = true)")
    width = visited.page.evaluate("document.documentElement.scrollWidth")
    assert width <= 390 and not visited.troubles
