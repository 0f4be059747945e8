"""A panel by its address: how the reader's own browser, where Python runs in a worker, asks for what an explorer shows.

``address_of`` writes the address into the page when the book is made; ``answer`` reads it there.
"""

import json
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

from .messages import spoken
from .panels import answered


def address_of(panel: Callable[..., Any]) -> str:
    """``module:function``. ValueError for a function that a browser could not import, as those of a notebook are."""
    module, name = getattr(panel, "__module__", None), getattr(panel, "__qualname__", "")
    if module in (None, "__main__") or getattr(sys.modules.get(module), name, None) is not panel:
        raise ValueError(
            f"the panel {name or panel!r} of {module} cannot be imported by its name, so no page can compute it live: "
            "define it at the top of a module, or leave out live"
        )
    return f"{module}:{name}"


def answer(question: str) -> str:
    """JSON in, ``{"panel": address, "choice": {axis: value}}``; HTML out: what the explorer shows for that choice.

    A page in another language adds ``"sentences"``, JSON again: what it knows to say, by the English.
    """
    asked = json.loads(question)
    module, _, name = asked["panel"].partition(":")
    panel = answered(getattr(import_module(module), name), asked["choice"])
    return spoken(panel._repr_html_(), asked.get("sentences", ""))
