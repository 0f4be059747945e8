"""How `pytest --nbval` runs a chapter: compared with its page, again if it is new.

nbval runs the cells in one kernel and compares what each of them shows with what is
stored. Then they run again in that kernel, as when a reader goes back up, and live:
there only an error counts. `make execute` does so before it stores a notebook: one
whose code is as it was then runs once here. `--weekly` runs each again.
"""

import itertools
import os
from collections import defaultdict

import nbformat
from nbval.plugin import IPyNbCell
from sources import LIVE, PUBLISH, sources

os.environ[PUBLISH] = "1"  # a kernel shows the face of an output that a page stores


def pytest_collection_modifyitems(items, config):
    """Put a chapter's cells a second time behind its last one."""
    ordered = []
    for file, group in itertools.groupby(items, key=lambda item: item.parent):
        ordered += (once := list(group))
        if isinstance(once[0], IPyNbCell) and (
            config.getoption("--weekly") or is_new(file)
        ):
            live = nbformat.v4.new_code_cell(LIVE)
            ordered.append(_again(file, "Live", -1, live))
            for each in once:
                again = each.name, each.cell_num, each.cell, each.options
                ordered.append(_again(file, *again))
    items[:] = ordered


def is_new(file):
    """Whether its code is not what ran twice when its outputs were stored."""
    notebook = nbformat.read(file.path, as_version=4)
    return notebook.metadata.get("compile_lab", {}).get("sources") != sources(
        notebook
    )


def _again(file, name, number, cell, options=()):
    unchecked = defaultdict(bool, options, check=False)
    same = {"cell_num": number, "cell": cell, "options": unchecked}
    return IPyNbCell.from_parent(file, name=f"{name} again", **same)
