"""A question that the reader answers before the answer is shown: a number on a scale, or one of several choices.

One description, two faces. With a kernel, ipywidgets. On the published page, HTML that a small script of the site veils
until the reader has said something, or wants it shown; without the script all of it is in sight.
"""

from __future__ import annotations

import html
import importlib.util
import math
from collections.abc import Sequence
from typing import Any

from ..doors import door
from .explore import in_kernel, publishing
from .figures import script_json
from .panels import Panel, computed
from .tables import marked_up
from .units import number
from .widgets import WIDGET, outputs_of

STEPS = 200
"""Of a scale: where its slider may stand."""


@door
class Prediction:
    """A question, its answer, and the `result` that is veiled until then: text, `Table`, `Figure`, … or several.

    `measured` is the answer, which the result shows as measured or computed: one of the `choices`, or a number from
    `low` to `high`, on a logarithmic scale if `log`, with its `unit` ("×" stands close, any other after a space).
    `guessed` is what an engineer wrote down before it was run, and was wrong: such questions stand together on a page.

    Raises ValueError for a scale without both ends, ends that are not in order (or not above 0 with `log`), a measured
    number beyond them, and a measured or guessed choice that is none.

    >>> from compile_lab.page import Prediction
    >>> asked = Prediction("How many times faster is the step?", 1.9, low=1, high=10, log=True, unit="×")
    >>> asked
    How many times faster is the step?
    Answer: 1.9×
    >>> asked.compared(3.8)
    'You said 3.8×; the answer is 1.9×: 2 times too high.'
    """

    def __init__(
        self,
        question: str,
        measured: float | str,
        result: Any = (),
        *,
        low: float | None = None,
        high: float | None = None,
        unit: str = "",
        log: bool = False,
        choices: Sequence[str] = (),
        guessed: float | str | None = None,
    ) -> None:
        self.question, self.measured, self.unit, self.log = question, measured, unit, log
        self.guessed = guessed
        self.choices = tuple(choices)
        if self.choices:
            if measured not in self.choices:
                raise ValueError(f"measured is {measured!r}, and the choices are {', '.join(map(repr, self.choices))}")
        elif low is None or high is None or isinstance(measured, str):
            raise ValueError(f"{question!r} has neither choices nor a number between two ends, low and high")
        elif not (low < high and math.isfinite(high - low) and (low > 0 or not log)):
            raise ValueError(f"low is {low} and high is {high}: a scale goes upwards{', from above 0' if log else ''}")
        elif not low <= measured <= high:
            raise ValueError(f"measured is {measured}, and the scale goes from {low} to {high}: it holds the answer")
        if guessed is not None and (guessed not in self.choices if self.choices else isinstance(guessed, str)):
            raise ValueError(f"guessed is {guessed!r}, which nobody can answer to {question!r}")
        self.low, self.high = low, high
        self.result = computed(lambda: result, {})
        self._widgets: _Widgets | None = None

    def at(self, share: float) -> float:
        """The number at a share of the scale, from 0 to 1, to three figures."""
        assert self.low is not None and self.high is not None  # of choices nobody asks
        along = self.low * (self.high / self.low) ** share if self.log else self.low + (self.high - self.low) * share
        return float(f"{along:.3g}")

    def text(self, value: float | str) -> str:
        """An answer as it is read: ``2.1×``, ``35 %``, ``12 ms``."""
        if isinstance(value, str):
            return value
        space = "" if self.unit in ("", "×") else "\N{NO-BREAK SPACE}"
        return f"{number(float(f'{value:.3g}') if isinstance(value, float) else value)}{space}{self.unit}"

    def compared(self, guess: float | str) -> str:
        """What the reader said beside the answer, in a sentence."""
        if isinstance(guess, str) or isinstance(self.measured, str):
            ending = "just so." if guess == self.measured else f"it is {self.text(self.measured)}."
            return f"You said {self.text(guess)}: {ending}"
        both = f"You said {self.text(guess)}; the answer is {self.text(self.measured)}"
        if not self.log or guess == self.measured:
            return f"{both}."
        times, side = guess / self.measured, "high"
        if times < 1:
            times, side = 1 / times, "low"
        return f"{both}: {times:.2g} times too {side}." if times >= 1.05 else f"{both}: as good as right."

    @property
    def before(self) -> str:
        """What was guessed before it was run, in a sentence; "" where nothing was."""
        return "" if self.guessed is None else f"Guessed before it was run: {self.text(self.guessed)}."

    def __repr__(self) -> str:
        parts = "\n".join(filter(None, (self.question, f"Answer: {self.text(self.measured)}", self.before)))
        shown = repr(self.result)
        return f"{parts}\n\n{shown}" if shown else parts

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        if not publishing() and in_kernel() and importlib.util.find_spec("ipywidgets"):
            self._widgets = self._widgets or _Widgets(self)
            return {**self._widgets.bundle(), "text/plain": self.question}
        return {"text/html": self._html(), "text/plain": repr(self)}

    def _html(self) -> str:
        asked: dict[str, Any] = {"question": self.question, "measured": self.measured, "text": self.text(self.measured)}
        if self.choices:
            asked["choices"] = self.choices
        else:
            asked |= {"low": self.low, "high": self.high, "log": self.log, "unit": self.text(1)[1:]}
        asked |= {} if self.guessed is None else {"guessed": self.text(self.guessed)}
        before = f'<p class="lab-guessed">{html.escape(self.before)}</p>' if self.before else ""
        return (
            f'<section class="lab-prediction" aria-label="Prediction">\n'
            f'<p class="lab-question">{marked_up(self.question)}</p>\n'
            f'<div class="lab-answer"><p class="lab-measured">Answer: <strong>{html.escape(self.text(self.measured))}'
            f"</strong></p>{before}{self.result._repr_html_()}</div>\n"
            f'<script type="application/json" class="lab-asked">{script_json(asked)}</script>\n</section>'
        )


class _Widgets:
    """The face with a kernel. Every name used of ipywidgets is in 7.7, which Colab has, and in 8."""

    def __init__(self, prediction: Prediction) -> None:
        import ipywidgets

        self._prediction = prediction
        self._output = ipywidgets.Output()
        if prediction.choices:
            self._control = ipywidgets.RadioButtons(options=prediction.choices, value=None)
        else:
            scale = [(prediction.text(value), value) for value in _scale(prediction)]
            self._control = ipywidgets.SelectionSlider(options=[("move me", ""), *scale], value="")
        self._commit = ipywidgets.Button(description="That is my prediction", button_style="primary")
        self._show = ipywidgets.Button(description="Show me")
        for button in (self._commit, self._show):
            button.layout.width = "max-content"
        self._commit.on_click(self._committed)
        self._show.on_click(lambda _: self._reveal("Answer: " + prediction.text(prediction.measured)))
        question = ipywidgets.HTML(value=f"<b>{marked_up(prediction.question)}</b>")
        buttons = ipywidgets.HBox([self._commit, self._show])
        self._box = ipywidgets.VBox([question, self._control, buttons, self._output])

    def bundle(self) -> dict[str, Any]:
        return {WIDGET: {"version_major": 2, "version_minor": 0, "model_id": self._box.model_id}}

    def _committed(self, _: object) -> None:
        if self._control.value not in (None, ""):
            self._reveal(self._prediction.compared(self._control.value))

    def _reveal(self, sentence: str) -> None:
        for widget in (self._control, self._commit, self._show):
            widget.disabled = True
        said = sentence, self._prediction.before, *self._prediction.result.pieces
        self._output.outputs = outputs_of(lambda: Panel(tuple(filter(None, said))))


def _scale(prediction: Prediction) -> list[float]:
    return list(dict.fromkeys(prediction.at(step / STEPS) for step in range(STEPS + 1)))
