"""Predictions: both faces ask the same, and what is shown comes from the cell."""

import json
import re

import pytest

from compile_lab.page import explore
from compile_lab.page.predict import Prediction
from compile_lab.page.tables import Table

RATIO = {"low": 0.1, "high": 10, "log": True, "unit": "×"}


def asked(prediction):
    return json.loads(re.search(r'class="lab-asked">(.*?)</script>', prediction._html(), re.DOTALL)[1])


def test_without_a_script_the_page_has_the_question_the_number_and_the_result():
    page = Prediction("How much *faster* is `f`?", 0.853, Table(["a"], [[7]]), **RATIO)._repr_mimebundle_()["text/html"]
    assert "<code>f</code>" in page and "<strong>0.853×</strong>" in page and ">7<" in page
    assert "hidden" not in page


def test_the_script_is_told_the_scale_or_the_choices():
    told = {"question": "How much?", "measured": 0.853, "text": "0.853×"}
    assert asked(Prediction("How much?", 0.853, **RATIO)) == told | RATIO
    assert asked(Prediction("Which?", "b", choices=["a", "b"]))["choices"] == ["a", "b"]
    assert asked(Prediction("How long?", 12, low=0, high=99, unit="ms"))["unit"] == "\N{NO-BREAK SPACE}ms"


@pytest.mark.parametrize(
    ("said", "told"),
    [(2.0, "2.5 times too high."), (0.1, "8 times too low."), (0.82, "as good as right."), (0.8, "0.8×.")],
)
def test_a_number_is_compared_by_its_factor(said, told):
    compared = Prediction("How much?", 0.8, **RATIO).compared(said)
    assert compared.startswith(f"You said {said:g}×; the answer is 0.8×") and compared.endswith(told)


def test_a_choice_is_right_or_not():
    which = Prediction("Which?", "b", choices=("a", "b"))
    assert which.compared("b") == "You said b: just so." and which.compared("a") == "You said a: it is b."


def test_a_logarithmic_scale_has_equal_factors():
    scale = Prediction("How much?", 1, **RATIO)
    assert [scale.at(share) for share in (0, 0.25, 0.5, 1)] == [0.1, 0.316, 1, 10]
    assert Prediction("How many?", 1, low=0, high=8).at(0.25) == 2


@pytest.fixture
def at_home(monkeypatch):
    """A kernel, as far as a Prediction can tell."""
    pytest.importorskip("ipywidgets")
    monkeypatch.delenv(explore.PUBLISH, raising=False)
    monkeypatch.setattr("compile_lab.page.predict.in_kernel", lambda: True)


def test_in_a_kernel_the_result_comes_with_the_answer(at_home):
    prediction = Prediction("How much?", 0.8, "The *reason*.", **RATIO)
    bundle = prediction._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in bundle and "0.8" not in bundle["text/plain"]
    widgets = prediction._widgets
    assert widgets._output.outputs == ()
    widgets._commit.click()
    assert not widgets._commit.disabled, "a slider that nobody has moved is no prediction"
    widgets._control.value = 10.0
    widgets._commit.click()
    shown = json.dumps(widgets._output.outputs)
    assert "12 times too high" in shown and "reason" in shown and widgets._commit.disabled


def test_in_a_kernel_a_choice_must_be_made_or_shown(at_home):
    prediction = Prediction("Which?", "b", choices=["a", "b"])
    prediction._repr_mimebundle_()
    widgets = prediction._widgets
    widgets._commit.click()
    assert widgets._output.outputs == (), "nothing was chosen"
    widgets._show.click()
    assert "Answer: b" in json.dumps(widgets._output.outputs)


def test_what_was_guessed_stands_behind_the_answer_and_in_the_data():
    made = Prediction("Which?", "b", "because", choices=["a", "b"], guessed="a")
    assert repr(made) == "Which?\nAnswer: b\nGuessed before it was run: a.\n\nbecause"
    assert asked(made)["guessed"] == "a" and made._html().index("Answer") < made._html().index("Guessed")
    assert "guessed" not in asked(Prediction("Which?", "b", choices=["a", "b"]))
    assert asked(Prediction("How much?", 0.8, **RATIO, guessed=1))["guessed"] == "1×"
