"""The stand-in for Colab, without its environment: its list, what it compares, and what the book must find there."""

import ast
import re
import sys
import tomllib
from pathlib import Path

import colab
import pytest
from packaging.requirements import Requirement
from repository import current, setup_cell
from unused import code_of

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("compile_lab", "mini_model", "capstone", "chapters")
LISTED = colab.listed(colab.LISTED.read_text("utf-8"))
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


@pytest.mark.parametrize("line", ["torch>=2.11", "torch", "torch==2.11.0+cu128", "jax[cuda]==0.7.2", "-r other.txt"])
def test_a_line_that_is_no_pin_is_named(line):
    with pytest.raises(ValueError, match=re.escape(repr(line))):
        colab.listed(f"# a list\nnumpy==2.1.3\n{line}\n")


def test_the_list_reads_names_as_pip_does():
    assert colab.listed("Jinja2==3.1.6  # templates\n\nml_dtypes==0.6.0\n") == {"jinja2": "3.1.6", "ml-dtypes": "0.6.0"}
    assert LISTED["torch"] == "2.11.0" and len(LISTED) > 100


def test_a_package_that_was_replaced_or_removed_is_named_and_one_that_came_is_not():
    before = {"numpy": "2.1.3", "torch": "2.11.0", "tqdm": "4.67.3"}
    after = {"numpy": "2.4.6", "torch": "2.11.0", "typeguard": "4.6.1"}
    assert colab.replaced(before, after) == ["numpy 2.1.3 was replaced by 2.4.6", "tqdm 4.67.3 is gone"]
    assert colab.replaced(before, before | {"compiled-training-step": "0.1.0"}) == []


def test_installed_versions_are_read_without_what_a_builder_adds(tmp_path):
    site = tmp_path / "lib/python3.13/site-packages"
    for folder, name, version in (("torch-2.11.0+cpu", "torch", "2.11.0+cpu"), ("Jinja2-3.1.6", "Jinja2", "3.1.6")):
        (site / f"{folder}.dist-info").mkdir(parents=True)
        (site / f"{folder}.dist-info/METADATA").write_text(f"Name: {name}\nVersion: {version}\n")
    assert colab.installed(tmp_path) == {"torch": "2.11.0", "jinja2": "3.1.6"}
    assert colab.installed(tmp_path / "none") == {}


def test_the_setup_cell_installs_this_checkout_where_it_names_the_repository():
    url, archive = current(), Path("/some/where/book.tar.gz")
    pointed = colab.installing(setup_cell(url), url, archive)
    assert str(archive) in pointed and url not in pointed
    assert colab.installing(f"%pip install typeguard git+{url}", url, archive) == f"%pip install typeguard {archive}"
    assert colab.installing(f'address = "{url}/archive/main.zip"', url, archive) == f'address = "{archive}"'
    with pytest.raises(ValueError, match="0 times"):
        colab.installing("import sys", url, archive)
