"""How `pytest --nbval` runs a chapter: compared with its page, then once more.

nbval runs the cells in one kernel and compares what each of them shows with what is
stored. Then they run again in that kernel, as when a reader goes back up, and live:
there only an error counts.
"""

import itertools
import os
from collections import defaultdict

import nbformat
from nbval.plugin import IPyNbCell

PUBLISH = "COMPILE_LAB_PUBLISH"
os.environ[PUBLISH] = "1"  # a kernel shows the face of an output that a page stores
LIVE = nbformat.v4.new_code_cell(f"import os; del os.environ['{PUBLISH}']")


def pytest_collection_modifyitems(items):
    """Put a chapter's cells a second time behind its last one."""
    ordered = []
    for file, group in itertools.groupby(items, key=lambda item: item.parent):
        ordered += (once := list(group))
        if isinstance(once[0], IPyNbCell):
            ordered.append(_again(file, "Live", -1, LIVE))
            for each in once:
                again = each.name, each.cell_num, each.cell, each.options
                ordered.append(_again(file, *again))
    items[:] = ordered


def _again(file, name, number, cell, options=()):
    unchecked = defaultdict(bool, options, check=False)
    same = {"cell_num": number, "cell": cell, "options": unchecked}
    return IPyNbCell.from_parent(file, name=f"{name} again", **same)
