"""Whether the code of a notebook has changed. What has, `make test` runs twice (notebooks/conftest.py)."""

import hashlib
import json

from nbformat import NotebookNode

from compile_lab.page.explore import PUBLISH

LIVE = f"import os; del os.environ[{PUBLISH!r}]"
"""The code that begins the second time: from here on a kernel shows what a reader with one sees, not a page."""


def sources(notebook: NotebookNode) -> str:
    """A digest of the code cells' sources, in their order.

    >>> from nbformat.v4 import new_code_cell, new_notebook
    >>> sources(new_notebook(cells=[new_code_cell("1 + 1")]))
    'c96e6eedaf4774f0'
    """
    code = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    return hashlib.sha256(json.dumps(code).encode()).hexdigest()[:16]
