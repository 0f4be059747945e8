"""A choice that the reader makes: axes of options, and a pure function from a choice to what it shows.

One object, two faces. With a kernel, ipywidgets: each panel is computed when it is asked for. On the published page
(environment variable COMPILE_LAB_PUBLISH=1 while the notebook runs): every panel is computed beforehand, into HTML
that a small script of the site switches, and of which the first panel reads well with no script at all.
"""

import asyncio
import html
import importlib.util
import itertools
import math
import os
import signal
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

from ..doors import door
from .figures import Drawing, Figure, script_json
from .tables import Code, Table, paragraphs

PUBLISH = "COMPILE_LAB_PUBLISH"
MOST_PANELS = 400
MOST_BYTES = 200_000  # of one output in a stored notebook
WIDGET = "application/vnd.jupyter.widget-view+json"
# Up to here the options stand side by side, all in sight; beyond, they go into a list.
BUTTONS_UP_TO = 5
BUTTONS_LETTERS = 60

Piece = str | Table | Code | Figure | Drawing
T = TypeVar("T")


@dataclass(frozen=True)
class Panel:
    """What one choice shows: its pieces, one under the other."""

    pieces: tuple[Piece, ...]

    def __repr__(self) -> str:
        return "\n\n".join(piece if isinstance(piece, str) else repr(piece) for piece in self.pieces)

    def _repr_html_(self) -> str:
        return "\n".join(paragraphs(piece) if isinstance(piece, str) else piece._repr_html_() for piece in self.pieces)

    def _ipython_display_(self) -> None:
        # Each piece by itself, so that a figure among them is drawn by whatever draws figures here.
        from IPython.display import display

        for piece in self.pieces:
            if isinstance(piece, str):
                display({"text/html": paragraphs(piece), "text/plain": piece}, raw=True)
            else:
                display(piece)


@door
class Explorer:
    """Axes of options, and the panel that each choice shows.

    `axes` maps an axis's name (a Python identifier; underscores show as spaces) to its options. `panel` is called with
    the axes as keyword arguments and returns text, a `Table`, `Code`, a `Figure`, a `Drawing`, or a sequence of those;
    for the same choice it always returns the same. `show` gives one panel to a reader who would rather write code.

    Raises ValueError for axes that offer no choice, and TypeError for options that are not text. When published, all
    panels are computed at once: an exception of `panel` is raised with the choice named, and a ValueError says where
    there is too much to precompute.
    """

    def __init__(self, title: str, axes: Mapping[str, Sequence[str]], panel: Callable[..., Any]) -> None:
        self.title = title
        self.axes = {name: _checked(name, options) for name, options in axes.items()}
        if not self.axes:
            raise ValueError(f"Explorer {title!r} has no axes: give at least one, with its options")
        self._panel = panel
        self._known: dict[tuple[str, ...], Panel] = {}
        self._live: _Live | None = None
        self._page: str | None = None
        if _publishing():
            # Here and not when it is shown: IPython swallows what a display method raises, and the notebook goes on.
            self._page = self._published()

    def __len__(self) -> int:
        """How many choices there are."""
        return math.prod(len(options) for options in self.axes.values())

    def show(self, **choice: str) -> Panel:
        """The panel of one choice; an axis that is left out is at its first option.

        Raises ValueError, with what there is, for an axis or an option that does not exist.
        """
        if unknown := [name for name in choice if name not in self.axes]:
            raise ValueError(f"no axis {unknown[0]!r}; the axes are {_listed(self.axes)}")
        for name, option in choice.items():
            if option not in self.axes[name]:
                raise ValueError(f"axis {name!r} has no option {option!r}; it has {_listed(self.axes[name])}")
        options = tuple(choice.get(name, options[0]) for name, options in self.axes.items())
        if options not in self._known:
            self._known[options] = self._computed(dict(zip(self.axes, options, strict=True)))
        return self._known[options]

    def _computed(self, choice: dict[str, str]) -> Panel:
        result = self._panel(**choice)
        pieces = tuple(result) if isinstance(result, list | tuple) else (result,)
        for piece in pieces:
            if not isinstance(piece, Piece):
                kind = type(piece).__name__
                made_of = ", ".join(each.__name__ for each in (Table, Code, Figure, Drawing))
                raise TypeError(f"a panel is made of text, {made_of}; for {_said(choice)} it has a {kind}")
        return Panel(pieces)

    def __repr__(self) -> str:
        axes = "; ".join(f"{_label(name)}: {', '.join(options)}" for name, options in self.axes.items())
        return f"{self.title}\n{axes}\nchoose with .show({', '.join(f'{n}={o[0]!r}' for n, o in self.axes.items())})"

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        if _publishing():
            self._page = self._page or self._published()
            return {"text/html": self._page, "text/plain": f"{self._note()}\n\n{self.show()!r}"}
        if _in_kernel() and importlib.util.find_spec("ipywidgets"):
            self._live = self._live or _Live(self)
            return {**self._live.bundle(), "text/plain": repr(self)}
        return self._without_controls()

    def _first(self) -> dict[str, str]:
        return {name: options[0] for name, options in self.axes.items()}

    def _published(self) -> str:
        if len(self) > MOST_PANELS:
            raise ValueError(
                f"Explorer {self.title!r} has {len(self)} choices, and at most {MOST_PANELS} can be precomputed: "
                "leave options out, or make two explorers of it"
            )
        panels = []
        for options in itertools.product(*self.axes.values()):
            choice = dict(zip(self.axes, options, strict=True))
            try:
                panels.append(self.show(**choice)._repr_html_())
            except Exception as error:
                error.add_note(f"in Explorer {self.title!r}, choice {_said(choice)}")
                raise
        page = self._html(panels)
        if (size := len(page.encode())) > MOST_BYTES:
            largest = max(len(panel.encode()) for panel in panels)
            raise ValueError(
                f"Explorer {self.title!r} is {size / 1000:.0f} kB of HTML, above the {MOST_BYTES // 1000} kB of one "
                f"output: its largest of {len(panels)} panels has {largest / 1000:.0f} kB; shorten the panels or "
                "leave options out"
            )
        return page

    def _html(self, panels: list[str]) -> str:
        axes = [{"name": _label(name), "options": list(options)} for name, options in self.axes.items()]
        return (
            f'<section class="lab-explorer" aria-label="{html.escape(self.title)}">\n'
            f'<p class="lab-explorer-title">{html.escape(self.title)}</p>\n'
            # The site's script puts its controls in the place of this note.
            f'<div class="lab-controls"><p class="lab-note">{html.escape(self._note())}</p></div>\n'
            f'<div class="lab-panel" aria-live="polite">{panels[0]}</div>\n'
            f'<script type="application/json" class="lab-choices">'
            f"{script_json({'axes': axes, 'panels': panels})}</script>\n</section>"
        )

    def _note(self) -> str:
        others = "; ".join(f"{_label(name)}: {', '.join(options[1:])}" for name, options in self.axes.items())
        return f"Shown is {_said(self._first())}, one of {len(self)} choices. The others: {others}."

    def _without_controls(self) -> dict[str, str]:
        call = f"show({', '.join(f'{name}={option!r}' for name, option in self._first().items())})"
        note = f"{self._note()} Without ipywidgets there are no controls here; choose in code: explorer.{call}"
        body = (
            f'<section class="lab-explorer" aria-label="{html.escape(self.title)}">'
            f'<p class="lab-explorer-title">{html.escape(self.title)}</p><p class="lab-note">{html.escape(note)}</p>'
            f'<div class="lab-panel">{self.show()._repr_html_()}</div></section>'
        )
        return {"text/html": body, "text/plain": f"{self.title}\n{note}\n\n{self.show()!r}"}


class _Live:
    """The face with a kernel. Every name used of ipywidgets is in 7.7, which Colab has, and in 8."""

    def __init__(self, explorer: Explorer) -> None:
        import ipywidgets

        self._explorer = explorer
        self._controls = {name: self._control(name, options) for name, options in explorer.axes.items()}
        self._status = ipywidgets.HTML(value="")
        self._output = ipywidgets.Output()
        title = ipywidgets.HTML(value=f"<b>{html.escape(explorer.title)}</b>")
        self._box = ipywidgets.VBox([title, *self._controls.values(), self._status, self._output])
        self._drawn = False
        self._loop: asyncio.AbstractEventLoop | None = None

    @staticmethod
    def _control(name: str, options: Sequence[str]) -> Any:
        import ipywidgets

        few = len(options) <= BUTTONS_UP_TO and sum(map(len, options)) <= BUTTONS_LETTERS
        settings = {"options": list(options), "value": options[0], "description": f"{_label(name)}:"}
        if few:
            style = {"description_width": "initial", "button_width": "auto"}
            return ipywidgets.ToggleButtons(**settings, style=style)
        layout = ipywidgets.Layout(width="max-content")
        return ipywidgets.Dropdown(**settings, style={"description_width": "initial"}, layout=layout)

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
        self._status.value = f"<i>computing {html.escape(_said(choice))} …</i>"
        try:
            # All at once, and not `with self._output`: there the client tells the kernel of each piece that it drew,
            # and nbclient that sends while a cell's reply comes may never read it (nbclient 0.11: the cell stands
            # still until its time-out).
            self._output.outputs = self._on_main_thread(lambda: self._outputs(choice))
        finally:
            self._status.value = ""

    def _outputs(self, choice: dict[str, str]) -> tuple[dict[str, Any], ...]:
        """What a notebook stores of a cell: what the panel printed while it was computed, then its pieces."""
        from IPython.display import display
        from IPython.utils.capture import capture_output

        with capture_output() as captured:
            display(self._shown(choice))
        printed = (("stdout", captured.stdout), ("stderr", captured.stderr))
        streams = [{"output_type": "stream", "name": name, "text": text} for name, text in printed if text]
        drawn = [
            {"output_type": "display_data", "data": each.data, "metadata": each.metadata or {}}
            for each in captured.outputs
        ]
        return (*streams, *drawn)

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

    def _shown(self, choice: dict[str, str]) -> object:
        try:
            return self._explorer.show(**choice)
        except KeyboardInterrupt:
            return _Trouble("interrupted", f"{_said(choice)} was not computed to its end; choose it again to retry.")
        except Exception as error:
            frames = traceback.extract_tb(error.__traceback__)
            own = [frame for frame in frames if frame.filename != __file__] or frames
            trace = "".join(traceback.format_list(own[-8:]))
            message = f"{error} (while computing {_said(choice)})"
            return _Trouble(type(error).__name__, message, trace)


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


def _checked(name: str, options: Sequence[str]) -> tuple[str, ...]:
    if not name.isidentifier():
        raise ValueError(f"the axis {name!r} is handed over as a keyword argument: name it with a Python identifier")
    if isinstance(options, str):
        raise TypeError(f"axis {name!r}: options are a list of texts, not one text {options!r}")
    options = tuple(options)
    if not options:
        raise ValueError(f"axis {name!r} has no options: there is nothing to choose")
    if twice := [option for option in dict.fromkeys(options) if options.count(option) > 1]:
        raise ValueError(f"axis {name!r} offers {twice[0]!r} more than once")
    return options


def _label(name: str) -> str:
    return name.replace("_", " ")


def _listed(names: object) -> str:
    return ", ".join(repr(name) for name in names)


def _said(choice: Mapping[str, str]) -> str:
    return ", ".join(f"{_label(name)} = {option}" for name, option in choice.items())


def _publishing() -> bool:
    return os.environ.get(PUBLISH) == "1"


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _in_kernel() -> bool:
    try:
        from IPython import get_ipython
    except ImportError:
        return False
    return getattr(get_ipython(), "kernel", None) is not None
