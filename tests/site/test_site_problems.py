"""Worked problems on the page: a number is compared with the answer; one that is right opens the solution."""

import harness
import pytest
from playwright.sync_api import expect
from printed import articles

pytestmark = pytest.mark.browser

CHAPTER = "notebooks/23_simple_fsdp.html"
ANSWER = "2.3"
GARBAGE = ("", " ", "a lot", "1,2", "1..5", "2.3 GB", "1e", "0x10", "Infinity", "<b>1</b>")


class Problem:
    """A worked problem of a page; the last one asks what a bucket saves."""

    def __init__(self, visited, at=-1):
        self.page, self.troubles = visited.page, visited.troubles
        self.box = self.page.locator(".lab-problem").nth(at)
        self.field, self.solution = self.box.get_by_role("textbox"), self.box.locator("details.lab-solution")
        self.status = self.box.get_by_role("status")

    def answer(self, typed):
        self.field.fill(typed)
        self.box.locator(".lab-try button").click()
        return self.status.inner_text()

    def is_open(self):
        return self.solution.evaluate("details => details.open")


@pytest.fixture
def problem(shared):
    """The last one, closed, as the page is when it comes."""
    problem = Problem(shared(CHAPTER))
    problem.solution.evaluate("details => { details.open = false; }")
    problem.field.fill("")
    return problem


def test_an_answer_that_is_wrong_is_compared_and_one_that_is_right_opens_the_solution(problem):
    assert problem.box.locator("label").inner_text().split() == ["Your", "answer", "ms"]
    for typed in GARBAGE:
        assert problem.answer(typed) == "Write a number, such as 1.5 or 2e9.", typed
    said = {
        "23": "Too large, by a factor of about 10.",
        "2.5": "Too large, by a factor of about 1.1.",
        "1,150": "Too large, by a factor of about 500.",
        "0.023 ms": "Too small, by a factor of about 100.",
        "0": "Too small.",
        "\N{MINUS SIGN}2.3": "Too small.",
    }
    for typed, sentence in said.items():
        assert problem.answer(typed) == sentence and ANSWER not in sentence
    assert not problem.is_open() and not problem.solution.locator("strong").is_visible()
    assert problem.answer("2.2 ms") == "Right: the solution is open below."
    assert problem.is_open() and problem.solution.locator("strong").inner_text() == "2.3\N{SPACE}ms"
    assert problem.answer("5").startswith("Too large") and problem.is_open(), "what was opened stays open"
    assert problem.status.get_attribute("role") == "status" and problem.troubles == []


def test_what_was_checked_is_kept_in_this_browser_and_does_not_open_the_solution(problem):
    problem.answer("2.25")
    problem.page.reload()
    assert problem.field.input_value() == "2.25" and problem.status.inner_text() == "" and not problem.is_open()
    assert Problem(problem, 0).field.input_value() == ""


def test_by_keyboard_alone(problem):
    problem.field.focus()
    problem.page.keyboard.type("2.3")
    problem.page.keyboard.press("Enter")
    assert problem.is_open() and problem.field.evaluate("field => field === document.activeElement")
    for _ in range(2):
        problem.page.keyboard.press("Tab")
    assert problem.page.evaluate("document.activeElement.textContent") == "Solution"
    problem.page.keyboard.press("Enter")
    assert not problem.is_open()


def test_every_answer_of_the_page_is_the_number_that_its_solution_has_in_bold(problem):
    for at in range(problem.page.locator(".lab-problem").count()):
        each = Problem(problem, at)
        bold = each.solution.locator("strong").text_content()
        assert each.answer(bold).startswith("Right"), bold


@pytest.mark.parametrize("theme", [pytest.param("light", marks=pytest.mark.matrix), "dark"])
def test_it_is_accessible_and_fits_a_phone(visit, theme):
    problem = Problem(visit(CHAPTER, width=390, height=844, color_scheme=theme))
    problem.answer(ANSWER)
    box = problem.box.bounding_box()
    assert box["x"] >= 0 and box["x"] + box["width"] <= 390
    assert problem.page.evaluate("document.documentElement.scrollWidth") <= 390
    for part in problem.box.locator("input, button, pre").all():
        inner = part.bounding_box()
        assert inner["x"] >= box["x"] and inner["x"] + inner["width"] <= box["x"] + box["width"]
    assert harness.violations(problem.page, ".lab-problem", every=True) == []


def test_the_field_comes_into_room_that_waits_for_it(visit):
    page = visit(CHAPTER, width=1280, height=900).page
    high = "places => places.map((place) => place.getBoundingClientRect().height)"
    filled = page.locator(".lab-try").evaluate_all(high)
    page.evaluate("document.querySelectorAll('.lab-try').forEach((place) => place.replaceChildren())")
    assert len(filled) >= 2 and page.locator(".lab-try").evaluate_all(high) == filled


def test_without_a_script_the_solution_can_be_opened_and_on_paper_it_is_open(visit, problem):
    plain = Problem(visit(CHAPTER, java_script_enabled=False))
    assert plain.field.count() == 0 and plain.box.locator(".lab-try").bounding_box()["height"] == 0
    assert not plain.solution.locator("strong").is_visible()
    plain.solution.locator("summary").click()
    assert plain.solution.locator("strong").is_visible()
    problem.page.emulate_media(media="print")
    assert not problem.field.is_visible()
    high = "strong => strong.checkVisibility({ contentVisibilityAuto: true, visibilityProperty: true })"
    assert problem.solution.locator("strong").evaluate(high) and not problem.is_open()
    problem.page.emulate_media(media="screen")


def test_in_spanish_a_comma_is_a_decimal_point_and_the_words_are_spanish(visit):
    problem = Problem(visit(f"es/{CHAPTER}"))
    problem.box.get_by_text("Tu respuesta").wait_for()
    said = {"2,5": "Demasiado grande, por un factor de aproximadamente 1,1.", "1.150,5": "aproximadamente 500."}
    said |= {"muchos": "Escribe un número, como 1,5 o 2e9.", "2,3": "Correcto", "2.3": "Correcto"}
    for typed, sentence in said.items():
        problem.answer(typed)
        expect(problem.status).to_contain_text(sentence)
    assert problem.box.locator("summary").inner_text() == "Solución" and problem.is_open() and problem.troubles == []


def test_in_print_a_solution_stands_open_below_its_statement(built):
    book = articles.Book("en", "The book", "https://example.org", articles.words_of("en"))
    name = CHAPTER.removesuffix(".html")
    article = articles.article_of(articles.page_of(built, name), name, "Part", book, [])
    boxes = article.body.select(".lab-problem")
    assert len(boxes) >= 2 and not any(box.select("details, .lab-try") for box in boxes)
    assert [box.select_one("em, strong").name for box in boxes] == ["em"] * len(boxes)
    assert boxes[-1].select_one(".printed-open strong").get_text() == f"{ANSWER} ms"
