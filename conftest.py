"""What every `pytest` here understands and finds, and whatever it starts.

`--weekly` runs also what takes minutes and is left to the weekly run. Two runs share the cores: an OpenMP thread that
waits for its next loop sleeps, so that the other run's threads have its core. No number depends on it.
"""

import doctest
import inspect
import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # read when torch is imported, which is later


def pytest_addoption(parser):
    parser.addoption(
        "--weekly",
        action="store_true",
        help="run the tests marked `weekly`, too, and every notebook's cells a second time",
    )


def pytest_collection_modifyitems(items, config):
    if not config.getoption("--weekly"):
        config.hook.pytest_deselected(items=[item for item in items if item.get_closest_marker("weekly")])
        items[:] = [item for item in items if not item.get_closest_marker("weekly")]


def _of_module(finder, module, found):
    """A door is a wrapper, which doctest would take for another module's."""
    return _from_module(finder, module, inspect.unwrap(found) if callable(found) else found)


_from_module, doctest.DocTestFinder._from_module = doctest.DocTestFinder._from_module, _of_module
