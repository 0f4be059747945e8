"""The stand-in for Colab, without its environment: its list, what it compares, and what the book must find there."""

import ast
import sys
import tomllib
from pathlib import Path

import colab
from packaging.requirements import Requirement
from unused import code_of

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("compile_lab", "mini_model", "capstone", "chapters")
LISTED = colab.pinned_versions(colab.PINS.read_text("utf-8"))
ELSEWHERE = {
    "functorch": "comes with torch",
    "torchao": "a recording's peer",
    "liger_kernel": "a recording's peer",
    "expecttest": "torch's own tests want it, and something stands in for it",
    "atlas_settings": "made by the code that imports it",
    "loss_of": "made by the code that imports it",
    "no_such_module": "is nowhere, and that is the point",
}


def third_party(code: str) -> set[str]:
    """The packages that some code imports, anywhere in it, without the book's own and Python's."""
    nodes = list(ast.walk(ast.parse(code)))
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module for node in nodes if isinstance(node, ast.ImportFrom) and not node.level}
    return {name.partition(".")[0] for name in names} - {*PACKAGES, *sys.stdlib_module_names}


def test_all_that_the_book_imports_is_on_colab():
    code = [file.read_text("utf-8") for package in PACKAGES for file in (ROOT / package).rglob("*.py")]
    code += [code_of(notebook) for notebook in (ROOT / "notebooks").glob("*.ipynb")]
    needed = set().union(*map(third_party, code))
    assert {"torch", "numpy", "typeguard", "IPython"} <= needed, "this looks where imports are"
    missing = {name for name in needed - {*ELSEWHERE} if colab.canonicalize_name(name) not in LISTED}
    assert not missing, "the setup cell installs no dependencies: what neither Colab has nor it names fails there"


def test_what_pyproject_asks_for_is_on_colab():
    """An installation with ``--no-deps`` asks nobody; and jax's extra is for those who have none."""
    asked = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["dependencies"]
    for each in map(Requirement, asked):
        assert each.specifier.contains(LISTED[colab.canonicalize_name(each.name)]), each
