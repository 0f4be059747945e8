"""Silent errors as a reader sees them: a card for each, with both answers, the cause and the program."""

from __future__ import annotations

import html
from collections.abc import Mapping
from dataclasses import dataclass

from compile_lab.doors import door
from compile_lab.page.tables import marked_up

from .silent import Finding, SilentError
from .silent_errors import ERRORS

FOLDED = '<details class="lab-behind lab-cards">'
"""What opens the cards of a chapter; the page of claims shows them open."""
_THREADS = "https://github.com/pytorch/pytorch/issues/"


@door
@dataclass(frozen=True)
class SilentErrors:
    """What a run of the programs found, as `silent_errors.findings` gives it: one card for each, in order.

    A program whose answer is right by now, or that is refused, says so on its card. Raises ValueError for a name that
    is none of `silent_errors.ERRORS`, and without any. With ``folded`` the cards stand behind their count.

    >>> from chapters.sharding_strategies.silent import Finding
    >>> from chapters.sharding_strategies.silent_errors_view import SilentErrors
    >>> SilentErrors({"item_of_a_sum": Finding("value: 6 is not 12", ranks="6", alone="12")})
    1 of 1 programs give another result than one process, without an exception.
    x.sum().item() on S(0): one process has 12; the ranks have 6
        _sharding_prop.py: propagate_op_sharding_non_cached; pytorch 166638, pytorch 144054
    """

    found: Mapping[str, Finding]
    folded: bool = False

    def __post_init__(self) -> None:
        if unknown := sorted(set(self.found) - set(ERRORS)):
            raise ValueError(f"no silent error is called {unknown[0]!r}; there are {', '.join(ERRORS)}")
        if not self.found:
            raise ValueError("no finding: give what silent_errors.findings() returns, or a part of it")

    @property
    def wrong(self) -> tuple[str, ...]:
        """The names of those that are wrong, and say nothing."""
        return tuple(name for name, each in self.found.items() if _is_wrong(each))

    def __repr__(self) -> str:
        lines = [self._count()]
        for name, each in self.found.items():
            lines += [f"{ERRORS[name].call}: {_answers(each)}", f"    {_where(ERRORS[name])}"]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        cards = "\n".join(_card(ERRORS[name], each) for name, each in self.found.items())
        if self.folded:
            return f"{FOLDED}<summary>{self._count()}</summary>\n{cards}</details>"
        return f"<p>{self._count()}</p>\n{cards}"

    def _count(self) -> str:
        total, wrong = len(self.found), len(self.wrong)
        return f"{wrong} of {total} programs give another result than one process, without an exception."


def _is_wrong(found: Finding) -> bool:
    return bool(found.difference) and not found.difference.startswith("refused")


def _answers(found: Finding) -> str:
    if not _is_wrong(found):
        return found.difference or "right in this torch"
    return f"one process has {found.alone}; the ranks have {found.ranks}"


def _where(error: SilentError) -> str:
    known = ", ".join(f"pytorch {number}" for number in error.reported) or "we found no report"
    return f"{error.place}; {known}"


def _card(error: SilentError, found: Finding) -> str:
    said = marked_up(_answers(found))
    if _is_wrong(found):
        said = f"one process has <code>{found.alone}</code>, the ranks have <code>{found.ranks}</code>"
    cause = "".join(f"<p>{marked_up(_flowing(part))}</p>" for part in error.cause.split("\n\n"))
    known = ", ".join(f'<a href="{_THREADS}{number}">pytorch {number}</a>' for number in error.reported)
    told = f"reported as {known}" if known else "we found no report of it"
    where = f"In <code>{html.escape(error.place)}</code>; {told}."
    return (
        f'<div class="lab-silent" id="silent-{error.name}"><p><strong><code>{html.escape(error.call)}</code></strong>: '
        f'{said}.</p>{cause}<p class="lab-note">{where}</p><details class="lab-behind"><summary>The program</summary>'
        f"<pre>{html.escape(error.source)}</pre></details></div>"
    )


def _flowing(text: str) -> str:
    return " ".join(text.split()).replace("``", "`")
