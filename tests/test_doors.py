"""The library's doors: what their examples print, and what becomes of wrong arguments.

Each example runs and prints what stands below it. Its call is then made again with wrong types and impossible values:
each is told by name, early, or is right after all.
"""

import ast
import doctest
import functools
import importlib
import inspect
import math
import os
import pkgutil
import random
import re
import tempfile
from pathlib import Path

import pytest
import torch
from fuzzed import NOT_CALLABLE, WRONG, complaint

import compile_lab
from compile_lab import doors, recordings
from compile_lab.capture import NotCompiledError
from compile_lab.simulator.patterns import plan
from compile_lab.simulator.pipeline import table
from compile_lab.simulator.wire import step_of

ROOT = Path(__file__).parents[1]
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
PACKAGES = ("compile_lab", "mini_model", "capstone", "chapters")
FILES = sorted(file for package in PACKAGES for file in (ROOT / package).rglob("*.py"))
FOLDERS = [each.name for each in pkgutil.walk_packages(compile_lab.__path__, "compile_lab.")]
MODULES = [name for name in FOLDERS if not name.endswith("__main__")] + ["chapters.record", "chapters.exercises"]
"""Where doors are, that wrong arguments are given to."""


def module_of(file):
    return ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def doors_in(file):
    """Names of a file's doors, and whether each has an example."""
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and "door" in map(ast.unparse, node.decorator_list):
            yield f"{module_of(file)}.{node.name}", ">>> " in (ast.get_docstring(node) or "")


SHOWN = {module_of(file): file for file in FILES if ">>> " in file.read_text()}
TOLD = (ValueError, TypeError, KeyError, OSError, recordings.RecordingError, NotCompiledError)
CALLED = {
    "backward_ms": "backward",
    "bytes_per_ms": "communication",
    "collective_ms": "collective",
    "device": "machine",
}
CALLED |= {
    "eager_ms": "samples",
    "compiled_ms": "samples",
    "gradients": "gradient",
    "kernels": "kernel",
    "order": "collective",
}
CALLED |= {"orders": "micro-batch", "rates": "measured", "results": "result", "trace": "null byte", "x": "tensor"}
"""What a message calls an argument, where that is not its name."""
OBSCURE = """
Code.mark Series.at budgets.values counted.warm_up endings.timeout faults_met.version gradient_error.exact
gradient_error.gradients gradients.batch made.name measured.expected measured_plan.expected measure_several.cases
merged.spans microseconds.row overlap_of.collectives overlap_of.compute plans.budgets quantised.dtype requests.steps
save.result share_lost.several slowed.lost stage_at_fault.batch throttled.bytes_per_s total_ms.spans
"""
"""Arguments whose wrong values are still told by what goes wrong with them."""
WRITES = {"save.root"}
"""None is the repository's own folder."""


def is_door(thing):
    code = getattr(thing.__init__ if isinstance(thing, type) else thing, "__code__", None)
    return code is not None and code.co_filename == doors.__file__ and thing.__module__ != doors.__name__


class Noted:
    """Of each module's examples the doors, with the arguments of the first call that they make of it."""

    def __init__(self):
        self.of = {}

    def first_calls(self):
        """Of the library's examples, in the modules' order, whatever else ran here, or earlier."""
        library = [module for module in reversed(SHOWN) if module in MODULES]
        return {door: call for module in library for door, call in self.of.get(module, {}).items()}

    def around(self, module, door, called):
        calls = self.of.setdefault(module, {})

        @functools.wraps(called)
        def call(*args, **kwargs):
            calls.setdefault(door, (args[isinstance(door, type) :], kwargs))
            return called(*args, **kwargs)

        return call


@pytest.fixture(scope="module")
def noted():
    return Noted()


@pytest.fixture(scope="module")
def example(noted):
    """``example(module)`` runs a module's examples, once for all tests: what they print wrongly, the files they leave.

    Each runs in a folder of its own. Doors are noted wherever a module has them, so that an example finds them so.
    """
    modules = [importlib.import_module(name) for name in MODULES]

    @functools.cache
    def run(module):
        printed = []
        with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
            patch.chdir(folder)
            for each in modules:
                for name, thing in list(vars(each).items()):
                    if is_door(thing) and isinstance(thing, type) and thing.__module__ == each.__name__:
                        patch.setattr(thing, "__init__", noted.around(module, thing, thing.__init__))
                    elif is_door(thing) and not isinstance(thing, type):
                        patch.setattr(each, name, noted.around(module, thing, thing))
            for each in examples_of(module):
                doctest.DocTestRunner(optionflags=FLAGS).run(each, out=printed.append, clear_globs=False)
            return "".join(printed), [*Path(folder).iterdir()]

    return run


def examples_of(module):
    return [each for each in doctest.DocTestFinder().find(importlib.import_module(module)) if each.examples]


@pytest.mark.skipif(torch.__version__[:4] != "2.13", reason="printed with torch 2.13, as the book is")
@pytest.mark.parametrize("module", SHOWN)
def test_an_example_prints_what_stands_below_it(module, example):
    printed, left = example(module)
    assert not printed, printed
    assert sum(len(each.examples) for each in examples_of(module)) == SHOWN[module].read_text().count(">>> ")
    assert not left, "an example leaves files behind"


def test_every_door_of_the_library_has_an_example():
    found = dict(door for file in FILES if file.is_relative_to(ROOT / "compile_lab") for door in doors_in(file))
    assert len(found) > 150 and not [name for name, has in found.items() if not has]


def test_the_ten_doors_that_the_package_names_are_there():
    named = re.findall(r"``from (\S+) import (\w+)``", compile_lab.__doc__)
    assert len(named) == 10 and all(callable(getattr(importlib.import_module(face), name)) for face, name in named)


@pytest.mark.processes
def test_what_no_door_takes_is_told_by_name(noted, example, alarm, tmp_path, monkeypatch):
    for module in SHOWN:
        if module in MODULES:
            example(module)
    monkeypatch.chdir(tmp_path)
    seed = int(os.environ.get("DOORS_SEED", "0"))
    found = {}
    calls = noted.first_calls()
    for door, (args, kwargs) in calls.items():
        good = inspect.signature(door).bind(*args, **kwargs)
        for name in good.arguments:
            where = f"{door.__qualname__}.{name}"
            if where in WRITES or where in OBSCURE.split() or "VAR" in good.signature.parameters[name].kind.name:
                continue
            chance = random.Random(f"{seed} {where}")  # the same values, whatever else was tried before
            for value in chance.sample(NOT_CALLABLE if callable(good.arguments[name]) else WRONG, 8):
                given = inspect.BoundArguments(good.signature, dict(good.arguments) | {name: value})
                names = (*good.arguments, CALLED.get(name, name), str(value), doors.shown(value))
                call = functools.partial(door, *given.args, **given.kwargs)
                alarm(300)
                found[f"{where}={doors.shown(value)}"] = complaint(call, names, TOLD)
    wrong = [f"{case} {said}" for case, said in found.items() if said]
    assert not wrong, "\n".join([f"seed {seed}, {len(wrong)} of {len(found)}:", *wrong])
    assert len(calls) > 150 and [*found.values()].count("") > 2000


def test_every_function_at_a_face_is_a_door():
    faces = [importlib.import_module(f"compile_lab.{each.name}") for each in pkgutil.iter_modules(compile_lab.__path__)]
    public = [getattr(face, name) for face in faces for name in getattr(face, "__all__", ())]
    functions = [each for each in public if inspect.isfunction(each)]
    assert len(functions) > 70
    assert not [each.__qualname__ for each in functions if each.__code__.co_filename != doors.__file__]


def test_the_message_is_the_rule():
    with pytest.raises(TypeError, match=r"^plan: shape is 5; it must be of type Shape \(int is not"):
        plan(5, "fsdp", 2)
    with pytest.raises(ValueError, match="stages is True; it must be a whole number from 1"):
        table("1F1B", True, 2)
    with pytest.raises(ValueError, match="compute_ms is nan; it must be a finite number from 0"):
        step_of(["MM"], math.nan, 1)


def test_a_door_checks_what_follows_the_named_arguments():
    @doors.door
    def joined(first: str, *others: str, between: str = ",", **marks: int) -> str:
        return between.join([first, *others, *marks])

    assert joined("a", "b", between="-", c=1) == "a-b-c"
    with pytest.raises(TypeError, match=r"joined: others is \('b', 3\).*item 1"):
        joined("a", "b", 3)
    with pytest.raises(TypeError, match=r"joined: marks is \{'c': 'd'\}"):
        joined("a", c="d")
