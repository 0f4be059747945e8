"""What a docstring shows is what its code prints: each example runs, and every door of the library has one."""

import ast
import doctest
import importlib
import re
from pathlib import Path

import pytest
import torch

import compile_lab

ROOT = Path(__file__).parents[1]
FILES = [
    file for package in ("compile_lab", "mini_model", "capstone", "chapters") for file in (ROOT / package).rglob("*.py")
]
SHOWN = sorted(file for file in FILES if ">>> " in file.read_text())
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def module_of(file):
    return ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def doors(file):
    """Names of a file's doors, and whether each has an example."""
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and "door" in map(ast.unparse, node.decorator_list):
            yield f"{module_of(file)}.{node.name}", ">>> " in (ast.get_docstring(node) or "")


@pytest.mark.skipif(torch.__version__[:4] != "2.13", reason="printed with torch 2.13, as the book is")
@pytest.mark.parametrize("file", SHOWN, ids=module_of)
def test_an_example_prints_what_stands_below_it(file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    printed = []
    module = importlib.import_module(module_of(file))
    examples = [each for each in doctest.DocTestFinder().find(module) if each.examples]
    for each in examples:
        doctest.DocTestRunner(optionflags=FLAGS).run(each, out=printed.append, clear_globs=False)
    assert not printed, "".join(printed)
    assert sum(len(each.examples) for each in examples) == file.read_text().count(">>> ")
    assert not list(tmp_path.iterdir()), "an example leaves files behind"


def test_every_door_of_the_library_has_an_example():
    found = dict(door for file in FILES if file.is_relative_to(ROOT / "compile_lab") for door in doors(file))
    assert len(found) > 150 and not [name for name, has in found.items() if not has]


def test_the_ten_doors_that_the_package_names_are_there():
    named = re.findall(r"``from (\S+) import (\w+)``", compile_lab.__doc__)
    assert len(named) == 10 and all(callable(getattr(importlib.import_module(face), name)) for face, name in named)
