"""The cell of an exercise, run as it stands in the reader's browser: what it checks, what it prints, how it fails.

Only for exercises of a room's ``in_page.py``: there is no torch in a page. And no page: ``seal`` closes the ways from
Python to the JavaScript around it, once, before the first answer is run.
"""

import ast
import contextlib
import html
import io
import json
import sys
from typing import Any

from compile_lab.page.messages import spoken

from .judging import Outcome, check

NAME = "<your answer>"
MOST_PRINTED = 2000
BRIDGES = ("js", "pyodide", "pyodide_js", "_pyodide", "_pyodide_core")
"""Packages through which Pyodide's Python reaches JavaScript: the page's cell has none of them."""


def answer(question: str) -> str:
    """JSON in, ``{"cell": source, "sentences": what is known of the page's language}``; HTML out: `judged`, in that."""
    asked = json.loads(question)
    return spoken(judged(asked["cell"]), asked["sentences"])


def judged(source: str) -> str:
    """The outcome of the cell's last line, as HTML, and what the cell printed; an error is said with its line."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        outcome = _run(source)
    said = printed.getvalue()
    if len(said) > MOST_PRINTED:
        said = f"{said[:MOST_PRINTED]} …"
    return outcome._repr_html_() + (f"<pre>{html.escape(said)}</pre>" if said else "")


def seal() -> None:
    """Take from this interpreter, a page's and no other, the modules that lead to JavaScript.

    It keeps an answer from touching the page by mistake. What keeps it from doing so on purpose is outside of Python:
    the worker's policy, and that nothing but the language is left in there (live/worker.mjs).
    """
    for name in [each for each in sys.modules if each.partition(".")[0] in BRIDGES]:
        del sys.modules[name]
    refused: dict[str, Any] = dict.fromkeys(BRIDGES)  # None, which no import finds
    sys.modules.update(refused)


def _run(source: str) -> Outcome:
    names: dict[str, Any] = {"check": check, "__name__": "__main__"}
    try:
        tree = ast.parse(source, NAME)
        for absent in ("torch", *BRIDGES):  # a page has torch's tables of schedules, which look like a torch
            if absent in _imported(tree):
                return Outcome("your answer", f"there is no {absent} in a page, and this exercise needs none.")
        body, last = tree.body, None
        if body and isinstance(body[-1], ast.Expr):
            last = ast.Expression(body[-1].value)
            del body[-1]
        exec(compile(ast.Module(body, []), NAME, "exec"), names)
        found = last and eval(compile(last, NAME, "eval"), names)
    except BaseException as error:  # exit() and Control-C's exception are answers, too: a page has nothing to leave
        said = error.msg if isinstance(error, SyntaxError) else str(error)
        name, line = type(error).__name__, _line_of(error)
        place = f"{name} in line {line}" if line else name
        return Outcome("your answer", f"{place}: {said}." if said else f"{place}.")
    if not isinstance(found, Outcome):
        return Outcome("your answer", "the last line must be the check: it says whether the answer is right.")
    return found


def _imported(tree: ast.AST) -> set[str]:
    names = [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module]
    return {name.partition(".")[0] for name in names}


def _line_of(error: BaseException) -> int | None:
    """Of the reader's lines the innermost that the error passed; None if it passed none."""
    line, at = getattr(error, "lineno", None), error.__traceback__
    while at:
        line = at.tb_lineno if at.tb_frame.f_code.co_filename == NAME else line
        at = at.tb_next
    return line
