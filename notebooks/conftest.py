"""How `pytest --nbval` runs a chapter: compared with its page, and then again.

nbval finds the cells, and tells which fail. They run in one kernel, and what a
reader would see of each is compared with what is stored. In `make test-all` they
run again in that kernel, as when a reader goes back up, and live: there only an
error counts. `make execute` does so before it stores a notebook, and a test asks
whether the stored outputs are those of its code.
"""

import itertools
import os
from collections import defaultdict
from copy import deepcopy

import pytest
from nbformat.v4 import new_code_cell
from nbval.plugin import IPyNbCell, IPyNbFile
from shown import PLOTLY, Kernel, difference
from sources import LIVE, PUBLISH

os.environ[PUBLISH] = "1"  # a kernel shows the face of an output that a page stores
TRACEBACK = "Traceback (most recent call last)"


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path, parent):
    found = yield
    if any(isinstance(each, IPyNbFile) for each in found):
        return [Chapter.from_parent(parent, path=file_path)]
    return found


def pytest_collection_modifyitems(items, config):
    """Put a chapter's cells a second time behind its last one."""
    if config.getoption("--ring") != "all":
        return
    ordered = []
    for file, group in itertools.groupby(items, key=lambda item: item.parent):
        ordered += (once := list(group))
        if isinstance(once[0], Cell):
            live = defaultdict(bool, again=True)
            ordered.append(_cell(file, "Live again", -1, new_code_cell(LIVE), live))
            for each in once:
                again = defaultdict(bool, each.options, again=True)
                name = f"{each.name} again"
                ordered.append(_cell(file, name, each.cell_num, each.cell, again))
    items[:] = ordered


def _cell(file, name, number, cell, options):
    same = {"cell_num": number, "cell": cell, "options": options}
    return Cell.from_parent(file, name=name, **same)


class Chapter(IPyNbFile):
    """Cells that run in their order: each when it, or a later one, is asked for."""

    def collect(self):
        self.kernel, self.steps, self.failures, self.at_once = None, [], [], []
        for each in super().collect():
            yield _cell(self, each.name, each.cell_num, each.cell, each.options)

    def setup(self):
        self.setup_sanitize_files()
        limit_s = self.config.option.nbval_cell_timeout
        self.kernel = Kernel(self.path.parent, limit_s)

    def teardown(self):
        if self.kernel:
            self.kernel.close()

    def run_to(self, step):
        """Run the cells up to this one that have not run. How this one failed."""
        for each in self.steps[len(self.failures) : step + 1]:
            source = "" if each.options["skip"] else each.cell.source
            may_fail = each.options["check_exception"]
            self.failures.append(self.kernel.run(each.name, source, may_fail))
            self.at_once.append(deepcopy(self.kernel.outputs(each.step)))
        return self.failures[step]

    def run_what_may_replace(self, step):
        """Run the whole first pass if a later cell may replace what this shows."""
        if step in self.kernel.named:
            once = [each.step for each in self.steps if not each.options["again"]]
            self.run_to(once[-1])


class Cell(IPyNbCell):
    """A cell, which fails where a reader sees something else than is stored."""

    def __init__(self, name, parent, cell_num, cell, options):
        super().__init__(name, parent, cell_num, cell, options)
        self.step = len(parent.steps)
        parent.steps.append(self)

    def setup(self):
        """Expect no failure: nbval lets all fail that follows a time-out."""

    def runtest(self):
        if self.options["skip"]:
            pytest.skip()
        if failed := self.parent.run_to(self.step):
            self.raise_cell_error(*failed)
        if not self.options["again"]:
            self._compare()
        printed = _tracebacks(self.shown())
        if printed and not _tracebacks(self.cell.outputs):
            self.raise_cell_error("prints an error that is not stored", printed)

    def shown(self):
        return self.parent.kernel.outputs(self.step)

    def _compare(self):
        if self.cell.source.strip() and self.cell.execution_count is None:
            self.raise_cell_error("was never run: see `make execute`")
        mimes = [each.get("data", {}).keys() for each in self.shown()]
        if any(PLOTLY in each and "text/html" not in each for each in mimes):
            self.raise_cell_error("a figure without text/html: no page shows it")
        self.parent.run_what_may_replace(self.step)
        if differs := self._difference(self.shown()):
            at_once = self._difference(self.parent.at_once[self.step])
            where = "" if differs == at_once else ", as a later cell replaces it"
            self.raise_cell_error(f"a reader sees another page{where}: {differs}")

    def _difference(self, shown):
        contents = self.options["check"]
        return difference(self.cell.outputs, shown, self.sanitize, contents)


def _tracebacks(outputs):
    texts = (each.text for each in outputs if each.output_type == "stream")
    return "\n".join(text for text in texts if TRACEBACK in text)
