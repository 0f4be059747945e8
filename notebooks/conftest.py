"""How `pytest --nbval` runs a chapter: compared with its page, and then again.

nbval runs the cells in one kernel and compares what each of them shows with what is
stored. In `make test-all` they run again in that kernel, as when a reader goes back
up, and live: there only an error counts. `make execute` does so before it stores a
notebook, and a test asks whether the stored outputs are those of its code.
"""

import itertools
import os
from collections import defaultdict

import nbformat
from nbval.plugin import IPyNbCell
from sources import LIVE, PUBLISH

os.environ[PUBLISH] = "1"  # a kernel shows the face of an output that a page stores


def pytest_collection_modifyitems(items, config):
    """Put a chapter's cells a second time behind its last one."""
    if config.getoption("--ring") != "all":
        return
    ordered = []
    for file, group in itertools.groupby(items, key=lambda item: item.parent):
        ordered += (once := list(group))
        if isinstance(once[0], IPyNbCell):
            live = nbformat.v4.new_code_cell(LIVE)
            ordered.append(_again(file, "Live", -1, live))
            for each in once:
                again = each.name, each.cell_num, each.cell, each.options
                ordered.append(_again(file, *again))
    items[:] = ordered


def _again(file, name, number, cell, options=()):
    unchecked = defaultdict(bool, options, check=False)
    same = {"cell_num": number, "cell": cell, "options": unchecked}
    return IPyNbCell.from_parent(file, name=f"{name} again", **same)
