"""The house's rules that import-linter's contracts, in pyproject.toml, cannot say."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import networkx

ROOT = Path(__file__).parents[1]
LAB, ROOMS = ROOT / "compile_lab", ROOT / "chapters"
FILES = sorted([*LAB.rglob("*.py"), *ROOMS.rglob("*.py")])
PRIVATE = re.compile(r"torch\._(?!_)|torch\.testing\._internal")


def place(file: Path) -> str:
    return file.relative_to(ROOT).as_posix()


def module(file: Path) -> str:
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(file: Path) -> Iterator[tuple[str, str]]:
    """Each import of a file: the module in full, and the name that is taken from it ("" for the module itself)."""
    package = module(file).split(".") if file.name == "__init__.py" else module(file).split(".")[:-1]
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            up = package[: len(package) - node.level + 1] if node.level else []
            source = ".".join([*up, *([node.module] if node.module else [])])
            yield from ((source, alias.name) for alias in node.names)


def test_private_torch_is_named_in_one_folder():
    guilty = []
    for file in FILES:
        used = [ast.unparse(node) for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Attribute)]
        taken = [f"{source}.{name}" for source, name in imports(file)]
        guilty += [f"{place(file)}: {name}" for name in (*used, *taken) if PRIVATE.match(name)]
    outside = [each for each in guilty if not each.startswith("compile_lab/_torch/")]
    assert guilty and not outside, f"private names of torch belong in compile_lab/_torch: {outside}"


def test_no_files_import_each_other_in_a_circle():
    packages = ("compile_lab", "chapters", "mini_model", "capstone")
    files = {module(file): file for package in packages for file in (ROOT / package).rglob("*.py")}
    arrows = networkx.DiGraph()
    for name, file in files.items():
        for source, taken in imports(file):
            target = next((each for each in (f"{source}.{taken}", source) if each in files), name)
            arrows.add_edge(name, target)
    circles = [sorted(circle) for circle in networkx.strongly_connected_components(arrows) if len(circle) > 1]
    assert len(arrows) > 500 and not circles


def test_only_subjects_knows_a_model():
    guilty = [
        f"{place(file)}: {source}"
        for file in FILES
        if place(file) != "chapters/shared/subjects.py"
        for source, _ in imports(file)
        if source.partition(".")[0] in ("mini_model", "capstone", "transformers")
    ]
    assert not guilty, f"an instrument takes any module, and an experiment asks subjects: {guilty}"


def test_page_and_simulator_need_no_torch():
    program = """
import importlib, pkgutil, sys
sys.modules["torch"] = None
import compile_lab.page, compile_lab.simulator
for package in (compile_lab.page, compile_lab.simulator):
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        importlib.import_module(module.name)
"""
    ran = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
