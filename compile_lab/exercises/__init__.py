"""Is my answer right? ``check("01.2", answer)`` says what is wrong with an answer, never what is right.

An exercise is a function from the reader's answer to the first thing wrong with it, or to None. The exercises of a
chapter stand in a module of its own, ``chapter_NN``, and register themselves under ``NN.K``.
"""

import html
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Checker = Callable[[Any], str | None]
_CHECKERS: dict[str, Checker] = {}


@dataclass(frozen=True)
class Outcome:
    """What became of one answer: ``wrong`` is empty if nothing was found wrong with it."""

    exercise: str
    wrong: str

    @property
    def passed(self) -> bool:
        """True if nothing was found wrong."""
        return not self.wrong

    def __repr__(self) -> str:
        return f"✓ {self.exercise}: right." if self.passed else f"✗ {self.exercise}: {self.wrong}"

    def _repr_html_(self) -> str:
        kind = "passed" if self.passed else "open"
        return f'<p class="lab-outcome lab-{kind}">{html.escape(repr(self), quote=False)}</p>'


def exercise(name: str) -> Callable[[Checker], Checker]:
    """Register a checker under the name of its exercise, ``NN.K``."""

    def register(checker: Checker) -> Checker:
        _CHECKERS[name] = checker
        return checker

    return register


def check(name: str, answer: Any) -> Outcome:
    """Check an answer. An exception that the answer raises is an answer too: it is named, not thrown at the reader.

    Raises KeyError, listing the chapter's exercises, for one that does not exist.
    """
    chapter = name.partition(".")[0]
    if importlib.util.find_spec(f"{__name__}.chapter_{chapter}"):
        importlib.import_module(f"{__name__}.chapter_{chapter}")
    if name not in _CHECKERS:
        known = (
            ", ".join(sorted(each for each in _CHECKERS if each.startswith(f"{chapter}."))) or "none of this chapter"
        )
        raise KeyError(f"there is no exercise {name!r}; known are {known}")
    if answer is None or answer is ...:
        return Outcome(name, "no answer yet: put yours in the place of the dots.")
    try:
        return Outcome(name, _CHECKERS[name](answer) or "")
    except Exception as error:
        return Outcome(name, f"your answer raised {type(error).__name__}: {str(error).splitlines()[0]}")
