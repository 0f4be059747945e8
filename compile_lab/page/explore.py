"""A choice that the reader makes: axes to choose along, and a pure function from a choice to what it shows.

One description, three faces. With a kernel, ipywidgets: each panel is computed when it is asked for. On the published
page (environment variable COMPILE_LAB_PUBLISH=1 while the notebook runs): panels are computed beforehand, into HTML
that a small script of the site switches, and of which the first panel reads well with no script at all. And live on
that page: Python, in the reader's own browser, computes the panel of any choice.
"""

import html
import importlib.util
import itertools
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ..doors import door
from .axes import Axis, Range, Rows, Value, checked, choice_text, comma_list, first, label, taken, text, whole
from .figures import script_json
from .live import address_of
from .panels import Panel, answered, computed
from .widgets import Widgets

PUBLISH = "COMPILE_LAB_PUBLISH"
MOST_PANELS = 400
MOST_BYTES = 200_000  # of one output in a stored notebook


@door
class Explorer:
    """Axes to choose along, and the panel that each choice shows.

    `axes` maps an axis's name (a Python identifier; underscores show as spaces) to its options, which are texts, or to
    a `Range` of numbers or `Rows` of blocks. `panel` is called with the axes as keyword arguments and returns text, a
    `Table`, `Code`, a `Figure`, a `Drawing`, or a sequence of those; for the same choice it always returns the same.
    `show` gives one panel to a reader who would rather write code.

    With `live`, `panel` is computed in the reader's browser, too, for any choice: it is a function at the top of a
    module of `compile_lab.page` or `compile_lab.simulator`, and a ValueError of it is an answer, shown by its message.
    `stored` says for an axis which values are computed beforehand besides the first: by default all of its options,
    and of a range no other.

    Raises ValueError for axes that offer no choice and for a live panel that no browser could import, and TypeError for
    options that are not text. When published, all stored panels are computed at once: an exception of `panel` is raised
    with the choice named, and a ValueError says where there is too much to precompute.

    >>> from compile_lab.page import Explorer
    >>> explorer = Explorer("Memory", {"dtype": ("fp32", "fp16")}, lambda dtype: f"{int(dtype[2:]) // 8} bytes")
    >>> explorer
    Memory
    dtype: fp32, fp16
    choose with .show(dtype='fp32')
    >>> explorer.show(dtype="fp16")
    2 bytes
    """

    def __init__(
        self,
        title: str,
        axes: Mapping[str, Sequence[str] | Range | Rows],
        panel: Callable[..., Any],
        *,
        live: bool = False,
        stored: Mapping[str, Sequence[Value]] | None = None,
    ) -> None:
        self.title = title
        self.axes = {name: checked(name, axis) for name, axis in axes.items()}
        if not self.axes:
            raise ValueError(f"Explorer {title!r} has no axes: give at least one, with its options")
        for axis in self.axes.values():
            if isinstance(axis, Range) and axis.where:
                self._know(axis.where[:1])
                taken(axis.where[0], self.axes[axis.where[0]], axis.where[1])
        self.stored = self._all_stored(stored or {})
        self._address = address_of(panel) if live else None
        self._panel = panel
        self._known: dict[tuple[Value, ...], Panel] = {}
        self._widgets: Widgets | None = None
        self._page: str | None = None
        if publishing():
            # Here and not when it is shown: IPython swallows what a display method raises, and the notebook goes on.
            self._page = self._published()

    def _all_stored(self, given: Mapping[str, Sequence[Value]]) -> dict[str, tuple[Value, ...]]:
        """The values of each axis whose panels the page stores, from the first on."""
        self._know(given)
        stored = {}
        for name, axis in self.axes.items():
            others = given.get(name, () if isinstance(axis, Range | Rows) else axis)
            stored[name] = tuple(dict.fromkeys(taken(name, axis, value) for value in (first(axis), *others)))
        return stored

    def __len__(self) -> int:
        """How many choices the page stores."""
        return math.prod(len(values) for values in self.stored.values())

    def show(self, **choice: Value) -> Panel:
        """The panel of one choice; an axis that is left out is at its first option, or where its range starts.

        Raises ValueError, with what there is, for an axis or an option that does not exist.
        """
        self._know(choice)
        values = tuple(taken(name, axis, choice.get(name, first(axis))) for name, axis in self.axes.items())
        if values not in self._known:
            compute = answered if self._address else computed
            self._known[values] = compute(self._panel, dict(zip(self.axes, values, strict=True)))
        return self._known[values]

    def _know(self, names: Iterable[str]) -> None:
        if unknown := [name for name in names if name not in self.axes]:
            raise ValueError(f"no axis {unknown[0]!r}; the axes are {comma_list(self.axes)}")

    def __repr__(self) -> str:
        axes = "; ".join(f"{label(name)}: {self._offer(name, 0)}" for name in self.axes)
        return f"{self.title}\n{axes}\nchoose with {self._call()}"

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        if publishing():
            self._page = self._page or self._published()
            return {"text/html": self._page, "text/plain": f"{self._note()}\n\n{self.show()!r}"}
        if in_kernel() and importlib.util.find_spec("ipywidgets"):
            self._widgets = self._widgets or Widgets(self.title, self.axes, self.show)
            return {**self._widgets.bundle(), "text/plain": repr(self)}
        return self._without_controls()

    def _first(self) -> dict[str, Value]:
        return {name: first(axis) for name, axis in self.axes.items()}

    def _published(self) -> str:
        if len(self) > MOST_PANELS:
            raise ValueError(
                f"Explorer {self.title!r} has {len(self)} choices, and at most {MOST_PANELS} can be precomputed: "
                "leave options out, or make two explorers of it"
            )
        panels = []
        for values in itertools.product(*self.stored.values()):
            choice = dict(zip(self.axes, values, strict=True))
            try:
                panels.append(self.show(**choice)._repr_html_())
            except Exception as error:
                error.add_note(f"in Explorer {self.title!r}, choice {choice_text(choice)}")
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
        choices: dict[str, Any] = {
            "axes": [
                {"name": label(name), "options": [text(axis, value) for value in self.stored[name]]}
                | ({"fixed": True} if isinstance(axis, Rows) else {})
                for name, axis in self.axes.items()
            ],
            "panels": panels,
        }
        if self._address:
            axes = [{"key": name, "stored": self.stored[name]} | _live(axis) for name, axis in self.axes.items()]
            choices["live"] = {"panel": self._address, "axes": axes}
        return (
            f'<section class="lab-explorer" aria-label="{html.escape(self.title)}">\n'
            f'<p class="lab-explorer-title">{html.escape(self.title)}</p>\n'
            # The site's script puts its controls in the place of this note.
            f'<div class="lab-controls"><p class="lab-note">{html.escape(self._note())}</p></div>\n'
            f'<div class="lab-panel" aria-live="polite">{panels[0]}</div>\n'
            f'<script type="application/json" class="lab-choices">{script_json(choices)}</script>\n</section>'
        )

    def _note(self) -> str:
        others = "; ".join(f"{label(name)}: {self._offer(name, 1)}" for name in self.axes)
        shown = f"Shown is {choice_text(self._first())}"
        if self._address:
            return f"{shown}. To choose: {others}."
        return f"{shown}, one of {len(self)} choices. The others: {others}."

    def _offer(self, name: str, skip: int) -> str:
        """What there is to choose along an axis, from its option number `skip` on."""
        axis = self.axes[name]
        if isinstance(axis, Range):
            return f"{axis.low:,.10g} to {axis.high:,.10g} {axis.unit}".rstrip()
        if isinstance(axis, Rows):
            return "each row's blocks in any order"
        return ", ".join(axis[skip:])

    def _call(self) -> str:
        return f".show({', '.join(f'{name}={value!r}' for name, value in self._first().items())})"

    def _without_controls(self) -> dict[str, str]:
        note = f"{self._note()} Without ipywidgets there are no controls here; choose in code: explorer{self._call()}"
        body = (
            f'<section class="lab-explorer" aria-label="{html.escape(self.title)}">'
            f'<p class="lab-explorer-title">{html.escape(self.title)}</p><p class="lab-note">{html.escape(note)}</p>'
            f'<div class="lab-panel">{self.show()._repr_html_()}</div></section>'
        )
        return {"text/html": body, "text/plain": f"{self.title}\n{note}\n\n{self.show()!r}"}


def _live(axis: Axis) -> dict[str, Any]:
    """How the page's script is told of an axis of which it may take any value."""
    if isinstance(axis, Rows):
        return {"rows": axis.start}
    if isinstance(axis, Range):
        told = {name: value for name, value in vars(axis).items() if name != "log" and value is not None}
        return told | ({"grid": [whole(value) for value in axis.grid]} if axis.log else {})
    return {"all": axis}


def publishing() -> bool:
    return os.environ.get(PUBLISH) == "1"


def in_kernel() -> bool:
    try:
        from IPython import get_ipython
    except ImportError:
        return False
    return getattr(get_ipython(), "kernel", None) is not None
