"""The house's rules: who may import whom, which room holds what. import-linter's contracts stand in pyproject.toml."""

import ast
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import networkx
import pytest

ROOT = Path(__file__).parents[1]
LAB, ROOMS = ROOT / "compile_lab", ROOT / "chapters"
FILES = sorted([*LAB.rglob("*.py"), *ROOMS.rglob("*.py")])
PRIVATE = re.compile(r"torch\._(?!_)|torch\.testing\._internal")
VIEWERS = ("compile_lab/report", "compile_lab/page/", "chapters/record.py", "chapters/registry.py")
VIEWERS += ("chapters/exercises", "compile_lab/preflight.py")


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


def is_view(file: Path) -> bool:
    return file.name == "view.py" or file.name.endswith("_view.py")


def file_of(name: str) -> Path | None:
    path = ROOT.joinpath(*name.split("."))
    return path.with_suffix(".py") if path.with_suffix(".py").is_file() else path if path.is_dir() else None


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


def test_only_views_draw():
    guilty = []
    for file in FILES:
        if is_view(file) or place(file).startswith(VIEWERS):
            continue
        for source, name in imports(file):
            target = file_of(f"{source}.{name}") or file_of(source)
            drawn = source.startswith("compile_lab.page") and source != "compile_lab.page.units" and name != "units"
            if drawn or (target and is_view(target)):
                guilty.append(f"{place(file)}: {source}.{name}")
    assert not guilty, f"what is drawn belongs in a view beside its instrument: {guilty}"


def test_inside_the_lab_a_name_is_imported_from_the_file_that_defines_it():
    guilty = []
    for file in FILES:
        for source, name in imports(file):
            target = file_of(source)
            is_face = target is not None and target.is_dir() and source != "compile_lab"
            if is_face and file_of(f"{source}.{name}") is None and name and file.parent != target:
                guilty.append(f"{place(file)}: {name} from {source}")
    assert not guilty, f"faces are for notebooks: {guilty}"


@pytest.mark.parametrize("face", [file for file in FILES if file.name == "__init__.py"], ids=place)
def test_a_face_defines_nothing_and_hands_out_no_submodules_name(face):
    body = ast.parse(face.read_text()).body
    defined = [node for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    handed = {name for _, name in imports(face)}
    submodules = {path.stem for path in face.parent.iterdir() if path.suffix == ".py" or path.is_dir()}
    assert not defined and not handed & submodules


def test_few_things_stand_at_the_top():
    modules = [path for path in LAB.glob("*.py") if path.name != "__init__.py"]
    folders = [path for path in LAB.iterdir() if path.is_dir() and path.name != "__pycache__"]
    assert len(modules) <= 10 and len(folders) <= 18


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


def linted(root: Path) -> subprocess.CompletedProcess:
    command = [
        sys.executable,
        "-c",
        "import sys; from importlinter.cli import lint_imports_command as c; sys.exit(c())",
    ]
    return subprocess.run([*command, "--no-cache"], cwd=root, capture_output=True, text=True)


def test_the_arrows_run_down_and_one_that_is_turned_is_found(tmp_path):
    assert linted(ROOT).returncode == 0
    for name in ("compile_lab", "mini_model", "capstone", "chapters", "pyproject.toml"):
        copied = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copied(ROOT / name, tmp_path / name)
    turned = tmp_path / "compile_lab" / "source.py"
    turned.write_text(turned.read_text() + "\nfrom .dynamo import tracing\n")
    found = linted(tmp_path)
    assert found.returncode == 1 and "compile_lab.source is not allowed to import compile_lab.dynamo" in found.stdout
