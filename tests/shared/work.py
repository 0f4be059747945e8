"""How much a function does, however long it takes."""

import sys
from collections.abc import Callable


def lines_run(act: Callable[[], object]) -> int:
    """Lines of Python, each as often as it runs: the same on a machine that does other work, too."""
    lines, before = 0, sys.gettrace()

    def noted(frame, event, _):
        nonlocal lines
        lines += event == "line"
        return noted

    sys.settrace(noted)
    try:
        act()
    finally:
        sys.settrace(before)
    return lines
