"""Predictions: both faces ask the same, and what is shown comes from the cell."""

import json

import pytest

from compile_lab.page import explore
from compile_lab.page.predict import Prediction

RATIO = {"low": 0.1, "high": 10, "log": True, "unit": "×"}


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
