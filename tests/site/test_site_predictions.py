"""Predictions on the page: veiled until the reader says something, kept in that browser alone, summed up on a page."""

import json
import re

import harness
import pytest

pytestmark = pytest.mark.browser

NUMBER, CHOICE = "notebooks/02_guards_and_recompiles.html", "notebooks/12_pipeline_bubbles.html"
VERDICTS = "notebooks/06_compile_modes.html"
SUM = "book/predictions.html"
GUESSES = "book/guess_then_run.html"


def prediction(page):
    return page.locator(".lab-prediction").first


def answer(page):
    """What the page has below the first prediction: the answer's own figure or table, and the text."""
    return page.locator(".lab-follows").first


def go(page, address):
    """To another page, once all of this one has come: what is still on its way would count as failed."""
    page.wait_for_load_state("networkidle")
    page.wait_for_function("() => window.Plotly || !document.querySelector('script[src*=plotly]')")
    page.goto(address)


def test_on_a_phone_it_fits_and_a_number_that_is_none_cannot_be_said(shared):
    page = shared(NUMBER).page
    page.set_viewport_size({"width": 390, "height": 844})
    asked = prediction(page)
    box = asked.bounding_box()
    assert box["x"] >= 0 and box["x"] + box["width"] <= 390
    for control in asked.locator("input, button").all():
        inner = control.bounding_box()
        assert inner["x"] >= box["x"] and inner["x"] + inner["width"] <= box["x"] + box["width"]
    page.set_viewport_size({"width": 1280, "height": 900})
    field, commit = asked.get_by_label("The same as a number"), asked.get_by_role("button", name="That is my")
    field.fill("60")
    assert commit.is_enabled()
    for wrong in ("", "-3", "0"):
        field.fill(wrong)
        assert commit.is_disabled(), wrong


ON_PAPER = """() => {
  const cut = (each) => each.checkVisibility() && each.scrollWidth > each.clientWidth + 1;
  const away = (each) => {
    const { left, width } = each.getBoundingClientRect();
    return left < 0 || !width || getComputedStyle(each).visibility !== "visible";
  };
  const follows = [...document.querySelectorAll(".lab-follows")];
  const drawings = [...document.querySelectorAll(".lab-drawing")];
  return [follows.length, follows.filter(away).length, drawings.filter(cut).length];
}"""


def test_without_a_script_and_on_paper_every_answer_is_in_sight_and_whole(visit):
    """As the browser's own menu prints: it tells the page, then lays it out as wide as the sheet."""
    plain = visit(NUMBER, java_script_enabled=False).page
    told = prediction(plain).locator(".lab-answer")
    assert told.is_visible() and "Answer: " in told.text_content()
    assert answer(plain).is_visible() and not plain.locator(".lab-veil").first.is_visible()
    printed = visit(NUMBER).page
    printed.evaluate("dispatchEvent(new Event('beforeprint'))")
    printed.emulate_media(media="print")
    printed.set_viewport_size({"width": 718, "height": 1040})
    many, *wrong = printed.evaluate(ON_PAPER)
    assert many >= 2 and wrong == [0, 0]
    assert answer(printed).is_visible() and answer(printed).locator("p").first.is_visible()
    assert not prediction(printed).locator(".lab-ask").is_visible()


def test_show_me_keeps_nothing(shared):
    visited = shared(NUMBER)
    prediction(visited.page).get_by_role("button", name="Show me").click()
    assert re.match(r"Answer: 2\d\d", prediction(visited.page).locator(".lab-said").text_content())
    assert visited.page.evaluate("localStorage.getItem('lab-predictions')") is None
    go(visited.page, visited.page.url)
    assert not answer(visited.page).is_visible()


def test_a_number_is_veiled_then_compared_and_kept_in_this_browser_alone(shared):
    visited = shared(NUMBER)
    page, asked = visited.page, prediction(visited.page)
    veil = page.locator(".lab-veil").first
    assert re.fullmatch(r"Hidden until you answer: 1 explorer, \d+ words\.", veil.inner_text())
    assert not answer(page).is_visible() and asked.get_by_role("button", name="That is my prediction").is_disabled()
    asked.get_by_label("The same as a number").fill("60")
    asked.get_by_role("button", name="That is my prediction").click()
    said = asked.locator(".lab-said")
    assert re.fullmatch(
        r"You said 60\sguards; the answer is 2\d\d\sguards: 4\.\d+ times too low\.", said.text_content()
    )
    assert answer(page).is_visible() and answer(page).locator(".lab-answer table").count() == 1
    assert page.locator(".lab-follows[hidden]").count() == page.locator(".lab-veil").count() > 0, "others keep theirs"
    assert said.evaluate("told => document.activeElement === told"), "a screen reader goes on with the answer"
    marks = {kind: asked.locator(f".lab-mark-{kind}").bounding_box()["x"] for kind in ("said", "measured")}
    assert marks["said"] < marks["measured"]
    go(page, page.url)
    assert answer(page).is_visible(), "what was said stays said"
    go(page, page.url.replace(NUMBER, SUM))
    assert "Numbers: 1 predicted, 0 within a factor of two" in page.locator(".lab-calibration").text_content()
    page.get_by_role("button", name="Forget my predictions").click()
    assert "not predicted anything" in page.locator(".lab-calibration").text_content()
    go(page, page.url.replace(SUM, NUMBER))
    assert not answer(page).is_visible()
    assert not visited.troubles


def test_a_number_beyond_the_scale_is_drawn_where_it_is(shared):
    asked = prediction(shared(NUMBER).page)
    asked.get_by_label("The same as a number").fill("20000")
    asked.get_by_role("button", name="That is my prediction").click()
    ends = asked.locator(".lab-scale-ends span").all_text_contents()
    assert ends[0].startswith("1\N{NO-BREAK SPACE}") and ends[-1].startswith("20,000\N{NO-BREAK SPACE}"), ends
    marks = {kind: asked.locator(f".lab-mark-{kind}").bounding_box()["x"] for kind in ("said", "measured")}
    assert marks["said"] > marks["measured"]


TOLD = """() => {
  const told = [];
  for (const prediction of document.querySelectorAll(".lab-prediction:has(.lab-ask)")) {
    const asked = JSON.parse(prediction.querySelector(".lab-asked").textContent);
    if (asked.choices || !/[.,]|\\d{3}/.test(asked.text)) continue;  // a number that stands for nothing else
    for (const text of document.querySelectorAll("article :is(p, li, td, figcaption)")) {
      const before = prediction.compareDocumentPosition(text) & Node.DOCUMENT_POSITION_PRECEDING;
      if ((before || text.closest(".lab-verdict")) && text.checkVisibility() && text.textContent.includes(asked.text))
        told.push([asked.question, asked.text, text.textContent.slice(0, 120)]);
    }
  }
  return told;
}"""


@pytest.mark.parametrize("path", harness.sampled(harness.chapters()))
def test_nothing_tells_the_answer_of_a_prediction_that_is_still_open(visit, path):
    """No text before it, nor a verdict anywhere, has the measured number; what follows waits, up to a heading."""
    visited = visit(f"{path}.html")  # of its own: in the one that others share some are answered
    page = visited.page
    asked = page.locator(".lab-prediction").count()
    assert page.locator(".lab-ask").count() == page.locator(".lab-follows[hidden]").count() == asked >= 2
    assert page.evaluate(TOLD) == [] and visited.troubles == []


def test_all_answers_are_shown_at_once_and_stay_shown(visit):
    visited = visit(NUMBER)
    page = visited.page
    page.get_by_label("Show all answers").check()
    assert page.locator(".lab-follows").count() and all(
        each.is_visible() for each in page.locator(".lab-follows").all()
    )
    assert page.locator(".lab-veil, .lab-ask").count() == 0
    go(page, page.url)
    assert page.get_by_label("Show all answers").is_checked() and not page.locator(".lab-follows[hidden]").count()
    page.get_by_label("Show all answers").uncheck()
    page.wait_for_function("() => document.querySelector('.lab-follows[hidden]')")
    assert not visited.troubles


def test_a_choice_by_keyboard_alone(shared):
    visited = shared(CHOICE)
    asked = prediction(visited.page)
    asked.get_by_role("radio").first.focus()
    visited.page.keyboard.press("Space")
    for _ in range(2):
        visited.page.keyboard.press("Tab")
        if visited.page.evaluate("document.activeElement.className") == "lab-commit":
            break
    visited.page.keyboard.press("Enter")
    assert asked.locator(".lab-said").text_content() == "You said shorter: it is as long."
    assert answer(visited.page).is_visible() and not visited.troubles


def test_verdicts_are_in_sight_without_a_script_and_on_paper(visit, shared):
    plain = visit(VERDICTS, java_script_enabled=False).page
    printed = shared(VERDICTS).page
    printed.emulate_media(media="print")
    for page in (plain, printed):
        assert all(verdict.is_visible() for verdict in page.locator(".lab-verdict").all())
    assert printed.locator(".lab-veil:visible").count() == 0
    printed.emulate_media(media="screen")


def test_a_verdict_below_a_prediction_comes_into_sight_with_the_answer_or_by_its_address(visit, shared):
    page = shared(VERDICTS).page
    c16 = page.locator(".lab-verdict", has_text="C16,")
    follows = page.locator(".lab-follows", has=c16)
    assert not c16.is_visible()
    follows.locator("xpath=preceding-sibling::div").last.get_by_role("button", name="Show me").click()
    assert c16.is_visible() and page.locator(".lab-follows[hidden]").count()
    cell = c16.evaluate("verdict => verdict.closest('.cell').querySelector('.lab-cell-number').id")
    sought = visit(f"{VERDICTS}#{cell}")
    sought.page.wait_for_function("() => document.querySelector('.lab-follows:not([hidden])')")
    assert sought.page.locator(".lab-verdict", has_text="C16,").is_visible() and not sought.troubles


def test_markup_in_what_the_browser_keeps_is_shown_as_text(visit):
    hostile = dict.fromkeys(("question", "text", "found", "title", "said", "measured"), "<img src=x>")
    stored = json.dumps({"any": hostile | {"chosen": True, "log": False, "page": "/<img src=x>"}})
    keep = f"localStorage.setItem('lab-predictions', {json.dumps(stored)})"
    visited = visit(SUM, before=lambda page: page.add_init_script(keep))
    listed = visited.page.locator(".lab-calibration")
    assert "You said <img src=x>; the answer is <img src=x>" in listed.text_content()
    assert listed.locator("img").count() == 0 and visited.troubles == []


def test_the_page_of_guesses_keeps_the_readers_score_and_tells_no_answer_before(shared):
    visited = shared(GUESSES)
    page = visited.page
    rows, score = page.locator(".lab-guesses > li"), page.locator(".lab-guess-score")
    many = rows.count()
    assert many >= 15 and score.text_content().startswith(f"You have answered none of {many}")
    assert not page.get_by_text("You said").count() and not page.get_by_text("Guessed before").count()
    rows.filter(has_text="`tl.maximum`".strip("`")).get_by_role("link").click()
    page.wait_for_load_state("networkidle")
    asked = page.locator(".lab-prediction").filter(has_text="what does an H100 store?")
    asked.get_by_label("NaN").check()
    asked.get_by_role("button", name="That is my prediction").click()
    assert asked.locator(".lab-guessed").text_content() == "Guessed before it was run: NaN."
    go(page, page.url.partition("/notebooks/")[0] + f"/{GUESSES}")
    assert score.text_content() == f"You have answered 1 of {many}, 0 of them right."
    told = page.locator(".lab-guesses > li.lab-wrong p")
    assert told.text_content() == "You said NaN; the answer is 1." and not visited.troubles


ASKING = """links => Promise.all(links.map(async ({ href, hash }) => {
  const sent = await (await fetch(href)).text();
  const cell = new DOMParser().parseFromString(sent, "text/html").querySelector(`.cell:has(${hash})`);
  return [href, cell?.querySelectorAll(".lab-prediction").length];
}))"""


def test_each_link_of_the_page_of_guesses_leads_to_a_cell_that_asks(shared):
    asking = shared(GUESSES).page.locator(".lab-guesses a").evaluate_all(ASKING)
    assert len(asking) >= 20 and [each for each in asking if each[1] != 1] == []
