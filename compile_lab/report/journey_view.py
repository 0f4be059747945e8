"""The journey of one line, as an ordered list in plain HTML: a step a stage, complete without a script."""

import html
import re
from dataclasses import dataclass
from typing import Any

from ..page.figures import Drawing
from ..page.tables import MARK, marked_up
from .line import Trail
from .steps import Journey, Step, journey

TIMELINE = "GPU timeline"


@dataclass(frozen=True)
class JourneyList:
    """A journey that prints itself: ``<ol class="lab-journey"><li><h4>…</h4><p>…</p><pre>…</pre></li>…</ol>``.

    `measured` is its last stage: when the line's kernels ran on a GPU.
    """

    found: Journey
    source: str = ""
    measured: Drawing | None = None

    def __repr__(self) -> str:
        steps = [f"{step.stage}, {step.size}: {step.summary}\n{_text(step)}" for step in self.found.steps]
        last = [f"{TIMELINE}: {self.measured.alt}\n{self.measured.full_caption}"] if self.measured else []
        return "\n\n".join([*steps, *last, *([self.source] if self.source else [])])

    def _repr_html_(self) -> str:
        items = [
            f"<li><h4>{html.escape(step.stage)} <small>{html.escape(step.size)}</small></h4>"
            f"<p>{marked_up(step.summary)}</p>{_pre(step)}</li>"
            for step in self.found.steps
        ]
        if self.measured:
            items.append(f"<li><h4>{TIMELINE} <small>measured</small></h4>{self.measured._repr_html_()}</li>")
        steps = "\n".join(items)
        told = f'\n<p class="lab-note">{html.escape(self.source)}</p>' if self.source else ""
        return f'<ol class="lab-journey">\n{steps}\n</ol>{told}'


def journey_list(
    trail: Trail, text: str, call: str, op: str, source: Any = "", measured: Drawing | None = None
) -> JourneyList:
    """The journey of the trail's line that contains `text`; arguments and errors as those of `journey`."""
    return JourneyList(journey(trail, text, call, op), str(source), measured)


def _pre(step: Step) -> str:
    """Lines of the stage, in bold what to look at. Long ones wrap, also where no style sheet is."""
    lines = [f"<b>{html.escape(text)}</b>" if named else html.escape(text) for named, text in _lines(step)]
    return '<pre style="white-space: pre-wrap; overflow-wrap: anywhere">' + "\n".join(lines) + "</pre>"


def _text(step: Step) -> str:
    return "\n".join(f"{MARK if named else ' '} {text}" for named, text in _lines(step))


def _lines(step: Step) -> list[tuple[bool, str]]:
    """The excerpt's lines, each with whether it is one to look at."""
    return [(bool(step.named and re.search(step.named, text)), text) for text in _dedented(step.excerpt.lines)]


def _dedented(lines: tuple[str, ...]) -> list[str]:
    least = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    return [line[least:] for line in lines]
