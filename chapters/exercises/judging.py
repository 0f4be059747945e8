"""Is my answer right? ``check("01.2", answer)`` says what is wrong with an answer, never what is right.

An exercise is a function from the reader's answer to the first thing wrong with it, or to None. It registers itself
under ``NN.K``, in its room's ``in_page.py`` if plain Python can judge it, and so the reader's page, too; else in the
room's ``exercises.py``.
"""

import html
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from compile_lab.doors import door

from ..rooms import rooms

Checker = Callable[[Any], str | None]
_CHECKERS: dict[str, Checker] = {}
_EXPECTED = {Callable: "a function, not {given}", int: "a whole number", float: "a number", object: "an answer"}


@dataclass(frozen=True)
class Outcome:
    """What became of one answer: ``wrong`` is empty if nothing was found wrong with it, or says that there is none."""

    exercise: str
    wrong: str
    answered: bool = True

    @property
    def passed(self) -> bool:
        """True if nothing was found wrong."""
        return not self.wrong

    def __repr__(self) -> str:
        if self.passed:
            return f"✓ {self.exercise}: right."
        return f"{'✗' if self.answered else '○'} {self.exercise}: {self.wrong}"

    def _repr_html_(self) -> str:
        kind = "passed" if self.passed else "open"
        return f'<p class="lab-outcome lab-{kind}">{html.escape(repr(self), quote=False)}</p>'


def exercise(name: str, *, takes: Any = object, expects: str = "") -> Callable[[Checker], Checker]:
    """Register a checker under the name of its exercise, ``NN.K``.

    ``takes`` is the type of an answer, Callable for a function: another one is refused, in the words ``expects`` if its
    type's do not fit, before the checker sees it. A float may be an int, and neither may be a bool.
    """
    refusal = f"this asks for {expects or _EXPECTED[takes]}."

    def register(checker: Checker) -> Checker:
        def checked(answer: Any) -> str | None:
            return checker(answer) if _fits(answer, takes) else refusal.format(given=type(answer).__name__)

        _CHECKERS[name] = checked
        return checker

    return register


def _fits(answer: Any, takes: Any) -> bool:
    if takes in (int, float):
        return isinstance(answer, int | takes) and not isinstance(answer, bool)
    return isinstance(answer, takes)


def more_or_fewer(answer: int, right: int, ask: str) -> str | None:
    """Which way a predicted number is off, and what to ask oneself; None for the right one."""
    return None if answer == right else f"{'more' if answer < right else 'fewer'} than {answer}: {ask}"


@door
def check(name: str, answer: Any) -> Outcome:
    """Check an answer. An exception that the answer raises is an answer too: it is named, not thrown at the reader.

    Raises KeyError, listing the chapter's exercises, for one that does not exist.
    """
    chapter = name.partition(".")[0]
    if room := rooms().get(chapter):
        for module in (f"{room}.in_page", f"{room}.exercises"):
            if name not in _CHECKERS and importlib.util.find_spec(module):
                importlib.import_module(module)
    if name not in _CHECKERS:
        known = (
            ", ".join(sorted(each for each in _CHECKERS if each.startswith(f"{chapter}."))) or "none of this chapter"
        )
        raise KeyError(f"there is no exercise {name!r}; known are {known}")
    if answer is None or answer is ...:
        return Outcome(name, "no answer yet: put yours in the place of the dots.", answered=False)
    try:
        return Outcome(name, _CHECKERS[name](answer) or "")
    except Exception as error:
        said = ": ".join([type(error).__name__, *str(error).splitlines()[:1]])  # an assert may say nothing
        return Outcome(name, f"your answer raised {said}")
