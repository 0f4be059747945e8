"""An explorer in a kernel: ipywidgets, and each panel computed when it is asked for."""

from __future__ import annotations

import asyncio
import html
import signal
import threading
import traceback
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from .axes import Axis, Range, Rows, Value, applies, choice_text, first, label, text, whole

WIDGET = "application/vnd.jupyter.widget-view+json"
# Up to here the options stand side by side, all in sight; beyond, they go into a list.
BUTTONS_UP_TO = 5
BUTTONS_LETTERS = 60

T = TypeVar("T")


class Widgets:
    """The face with a kernel. ``show`` is the explorer's; names of ipywidgets are those of both 7.7 (Colab's) and 8."""

    def __init__(self, title: str, axes: Mapping[str, Axis], show: Callable[..., object]) -> None:
        import ipywidgets

        self._axes, self._show = axes, show
        self._controls = {name: _control(name, axis) for name, axis in axes.items()}
        self._status = ipywidgets.HTML(value="")
        self._output = ipywidgets.Output()
        heading = ipywidgets.HTML(value=f"<b>{html.escape(title)}</b>")
        self._box = ipywidgets.VBox([heading, *self._controls.values(), self._status, self._output])
        self._drawn = False
        self._loop: asyncio.AbstractEventLoop | None = None

    def bundle(self) -> dict[str, Any]:
        if not self._drawn:
            self._drawn = True
            self._loop = _running_loop()
            self._draw()
            for control in self._controls.values():
                control.observe(self._draw, names="value")
        return {WIDGET: {"version_major": 2, "version_minor": 0, "model_id": self._box.model_id}}

    def _draw(self, change: object = None) -> None:
        choice = {name: control.value for name, control in self._controls.items()}
        for name, axis in self._axes.items():
            self._controls[name].layout.display = None if applies(axis, choice) else "none"
        self._status.value = f"<i>computing {html.escape(choice_text(choice))} …</i>"
        try:
            # All at once, and not `with self._output`: there the client tells the kernel of each piece that it drew,
            # and nbclient that sends while a cell's reply comes may never read it (nbclient 0.11: the cell stands
            # still until its time-out).
            self._output.outputs = self._on_main_thread(lambda: outputs_of(lambda: self._shown(choice)))
        finally:
            self._status.value = ""

    def _on_main_thread(self, call: Callable[[], T]) -> T:
        """What `call` returns, computed on the main thread.

        From ipykernel 7 on, JupyterLab hands a widget's messages to a thread of their own. A panel computed there would
        run beside the reader's cells, and no interrupt would reach it; here it waits its turn like a cell.
        """
        if self._loop is None or threading.current_thread() is threading.main_thread():
            return call()
        outcome: Future[T] = Future()

        def run() -> None:
            before = signal.signal(signal.SIGINT, signal.default_int_handler)
            try:
                outcome.set_result(call())
            except BaseException as error:
                outcome.set_exception(error)
            finally:
                signal.signal(signal.SIGINT, before or signal.SIG_DFL)

        self._loop.call_soon_threadsafe(run)
        return outcome.result()

    def _shown(self, choice: dict[str, Value]) -> object:
        try:
            return self._show(**choice)
        except KeyboardInterrupt:
            return _Trouble(
                "interrupted", f"{choice_text(choice)} was not computed to its end; choose it again to retry."
            )
        except Exception as error:
            frames = traceback.extract_tb(error.__traceback__)
            own = [frame for frame in frames if Path(frame.filename).parent != Path(__file__).parent] or frames
            trace = "".join(traceback.format_list(own[-8:]))
            message = f"{error} (while computing {choice_text(choice)})"
            return _Trouble(type(error).__name__, message, trace)


def outputs_of(shown: Callable[[], object]) -> tuple[dict[str, Any], ...]:
    """What a notebook stores of a cell: what `shown` printed while it was computed, then what it returns, displayed."""
    from IPython.display import display
    from IPython.utils.capture import capture_output

    with capture_output() as captured:
        display(shown())
    printed = (("stdout", captured.stdout), ("stderr", captured.stderr))
    streams = [{"output_type": "stream", "name": name, "text": text} for name, text in printed if text]
    drawn = [
        {"output_type": "display_data", "data": each.data, "metadata": each.metadata or {}} for each in captured.outputs
    ]
    return (*streams, *drawn)


def _control(name: str, axis: Axis) -> Any:
    import ipywidgets

    settings: dict[str, Any] = {"value": first(axis), "description": f"{label(name)}:"}
    settings["style"] = {"description_width": "initial"}
    if isinstance(axis, Range):
        ends = [whole(each) for each in (axis.low, axis.high, axis.step)]
        if axis.log:
            settings |= {"options": [(text(axis, each), whole(each)) for each in axis.grid]}
            return ipywidgets.SelectionSlider(**settings, continuous_update=False)
        kind = ipywidgets.IntSlider if all(isinstance(each, int) for each in ends) else ipywidgets.FloatSlider
        settings |= dict(zip(("min", "max", "step"), ends, strict=True))
        return kind(**settings, continuous_update=False)  # a panel may take long: it is computed once the reader stops
    if isinstance(axis, Rows):
        return ipywidgets.Textarea(**settings, continuous_update=False, layout=ipywidgets.Layout(width="98%"))
    settings |= {"options": list(axis)}
    if len(axis) <= BUTTONS_UP_TO and sum(map(len, axis)) <= BUTTONS_LETTERS:
        settings["style"] |= {"button_width": "auto"}
        return ipywidgets.ToggleButtons(**settings)
    return ipywidgets.Dropdown(**settings, layout=ipywidgets.Layout(width="max-content"))


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


@dataclass(frozen=True)
class _Trouble:
    """Why there is no panel: readable, with the traceback folded away."""

    kind: str
    message: str
    trace: str = ""

    def __repr__(self) -> str:
        return "\n".join(part for part in (f"{self.kind}: {self.message}", self.trace) if part)

    def _repr_html_(self) -> str:
        trace = f"<details><summary>Traceback</summary><pre>{html.escape(self.trace)}</pre></details>"
        return (
            f'<div class="lab-trouble" role="alert"><p><strong>{html.escape(self.kind)}</strong>: '
            f"{html.escape(self.message)}</p>{trace if self.trace else ''}</div>"
        )
