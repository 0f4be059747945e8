"""Exercises in the page: the reader types an answer, and the exercise's own judge says what is wrong with it."""

import html
import re

import harness
import nbformat
import pytest

from chapters.exercises import check

CHAPTER = "notebooks/08_activation_checkpointing.html"
RIGHT = "def best_segment(blocks, input_nbytes, block_nbytes):"
PLAIN = sorted((harness.ROOT / "chapters").glob("*/in_page.py"))


def tagged(prefix: str) -> dict[str, nbformat.NotebookNode]:
    """The cells of all notebooks with such a tag, by the exercise's name."""
    return {
        tag.removeprefix(prefix): cell
        for path in sorted((harness.ROOT / "notebooks").glob("*.ipynb"))
        for cell in nbformat.read(path, as_version=4).cells
        for tag in cell.metadata.get("tags", [])
        if tag.startswith(prefix)
    }


def in_page() -> dict[str, nbformat.NotebookNode]:
    return {name: cell for name, cell in tagged("exercise-").items() if "in-page" in cell.metadata.tags}


class Exercise:
    def __init__(self, visited, name="08.1"):
        self.page, self.troubles = visited.page, visited.troubles
        self.cell = self.page.locator(f".cell.tag_in-page[class*='exercise-{name} ']")
        self.field = self.cell.get_by_role("textbox", name=f"Your answer to {name}")

    def press(self, name):
        self.cell.get_by_role("button", name=name, exact=True).click()

    def open(self):
        if not self.field.is_visible():
            self.press("Answer here")

    def says(self, text):
        self.cell.locator(".cell_output", has_text=text).wait_for()


@pytest.fixture
def exercise(shared):
    return Exercise(shared(CHAPTER))


def test_every_plain_exercise_can_be_answered_in_the_page_and_no_other():
    plain = {name for path in PLAIN for name in re.findall(r'(?m)^@exercise\("(.+?)"', path.read_text("utf-8"))}
    assert set(in_page()) == plain and {name[:2] for name in plain} == {
        name.partition("/")[2][:2] for name in harness.chapters()
    }


@pytest.mark.browser
def test_the_pages_judge_says_what_the_notebooks_says(exercise):
    judged, cells = {}, in_page()
    for name, cell in cells.items():
        judged[name] = exercise.page.evaluate("cell => window.lab.python.judge(cell)", cell.source)
    stored = {name: "".join(cell.outputs[-1].data["text/html"]) for name, cell in cells.items()}
    assert judged == stored and not any("✓" in said for said in judged.values())


@pytest.mark.browser
@pytest.mark.slow
def test_a_solution_passes_in_the_page(visit):
    page = visit(CHAPTER).page
    solutions = {name: cell.source for name, cell in tagged("solution-").items() if name in in_page()}
    failing = {}
    for name, source in solutions.items():
        begun = "\n".join(line for line in in_page()[name].source.splitlines() if line.startswith("from chapters"))
        begun += "\nfrom compile_lab.simulator.overlap import Span" * (name == "13.1")
        said = page.evaluate("cell => window.lab.python.judge(cell)", f"{begun}\n{source}")
        if f"✓ {name}: right." not in said:
            failing[name] = html.unescape(said)
    assert failing == {} and len(solutions) == len(in_page())


@pytest.mark.browser
def test_an_answer_is_typed_checked_kept_and_taken_back(exercise):
    exercise.press("Answer here")
    assert exercise.field.input_value() == in_page()["08.1"].source
    assert exercise.field.evaluate("field => field === document.activeElement")
    exercise.field.fill("")
    for line in (RIGHT, "ks = [k for k in range(1, blocks + 1) if blocks % k == 0]"):
        exercise.page.keyboard.type(line)
        exercise.page.keyboard.press("Enter")
    exercise.page.keyboard.type("return min(ks, key=lambda k: blocks // k * input_nbytes + k * block_nbytes)")
    typed = exercise.field.input_value().splitlines()
    assert [len(line) - len(line.lstrip()) for line in typed] == [0, 4, 4]
    exercise.field.fill("\n".join([*typed, "", 'check("08.1", best_segment)']))
    exercise.field.press("Control+Enter")
    exercise.says("✓ 08.1: right.")
    exercise.page.reload()
    assert exercise.field.input_value().startswith(RIGHT) and "right" not in exercise.cell.inner_text()
    exercise.press("Start over")
    assert exercise.field.input_value() == in_page()["08.1"].source
    exercise.press("Check")
    exercise.says(repr(check("08.1", lambda blocks, *_: round(blocks**0.5))))
    assert exercise.troubles == []


@pytest.mark.browser
def test_what_goes_wrong_is_said_in_its_place_and_the_next_answer_is_judged(exercise):
    wrong = {
        "def f(:\n    pass": "SyntaxError in line 1",
        "x = 1\nnothing_of_this_name": "NameError in line 2: name 'nothing_of_this_name' is not defined.",
        "1 + 1": "the last line must be the check",
        "import torch": "there is no torch in a page",
        'print("<b>" * 3)\ncheck("08.3", 4)': "<b><b><b>",
        "while True:\n    pass": "ran for more than 1 s, and was stopped",
    }
    exercise.open()
    for answer, said in wrong.items():
        exercise.field.fill(answer)
        if "more than 1 s" in said:
            harness.hurry(exercise.page, answer=1_000)
        exercise.press("Check")
        exercise.says(said)
        harness.hurry(exercise.page, answer=1000 * harness.LONGEST_S)
        exercise.field.fill('check("08.3", 3)')
        exercise.press("Check")
        exercise.says("✓ 08.3: right.")


@pytest.mark.browser
@pytest.mark.matrix
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_an_open_exercise_is_accessible_and_fits_a_phone(visit, theme):
    exercise = Exercise(visit(CHAPTER, width=390, height=844, color_scheme=theme))
    exercise.press("Answer here")
    assert harness.violations(exercise.page, ".cell.tag_in-page", every=True) == []
    assert exercise.page.evaluate("document.documentElement.scrollWidth") <= 390
