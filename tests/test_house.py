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
SOURCES = sorted(
    file
    for folder in ("compile_lab", "chapters", "mini_model", "capstone", "book/tools", "book/_ext")
    for file in (ROOT / folder).rglob("*.py")
)
PRIVATE = re.compile(r"torch\._(?!_)|torch\.testing\._internal")

KEPT_NAMES = {
    ("compile_lab/report/cards.py", "asked"),  # stored in reports
    ("compile_lab/report/cards.py", "said"),
    ("compile_lab/report/cards.py", "told"),
    ("compile_lab/judge/__main__.py", "_beside"),
    ("compile_lab/judge/seen.py", "said"),
    ("compile_lab/judge/judging.py", "listed"),
    ("chapters/capstone/experiments/capstone_foretold.py", "capstone_foretold"),  # a recording's
    ("chapters/sharding_strategies/audit.py", "asked"),  # stored in recordings
    ("chapters/where_to_compile/decisions.py", "spread"),  # the axis that a reader sees
    ("chapters/where_to_compile/view.py", "spread"),
}

ROOM, LARGE_ROOM = 900, 1_300
"""Lines of a chapter's room; four may be large."""
OVER = {  # at most as large as they are: what goes there goes for something
    "attention_and_passes": 1_480,
    "capstone": 2_320,
    "gspmd": 2_120,
    "inference": 2_440,
    "is_it_right": 2_660,
    "overlap": 1_430,
    "return_on_investment": 1_380,
    "sharding_strategies": 2_230,
}


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


def refused_names() -> dict[str, str]:
    """CONTRIBUTING's table: each word that is no name, with what to say instead."""
    section = (ROOT / "CONTRIBUTING.md").read_text().partition("\n## Names\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.+?`) \| (.+) \|$", section, re.MULTILINE)
    return {word: better for words, better in rows for word in re.findall(r"`(\w+)`", words)}


def defined_names(tree: ast.Module) -> Iterator[str]:
    """Functions, classes and their parameters; fields and constants, which modules and classes assign."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from (each.arg for each in ast.walk(node.args) if isinstance(each, ast.arg))
        if isinstance(node, ast.Module | ast.ClassDef):
            assigned = [each for each in node.body if isinstance(each, ast.Assign | ast.AnnAssign)]
            targets = [target for each in assigned for target in getattr(each, "targets", None) or [each.target]]
            yield from (each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name))


def is_refused(name: str, word: str) -> bool:
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().strip("_").split("_")
    return word in (words[0], words[-1])


def test_definitions_are_named_in_the_terms_of_the_field():
    refused = refused_names()
    assert len(refused) > 15
    guilty = [
        f"{place(file)}: {name}; instead of {word}: {better}"
        for file in SOURCES
        if "dynamo/atlas/themes" not in place(file)  # programs that break a graph, named by what they do
        for name in {file.stem, *defined_names(ast.parse(file.read_text()))}
        for word, better in refused.items()
        if is_refused(name, word) and (place(file), name) not in KEPT_NAMES
    ]
    assert not guilty, "\n".join(sorted(guilty))


def test_a_name_is_refused_by_its_first_and_its_last_word():
    assert is_refused("PlacedCall", "placed") and is_refused("_told", "told") and is_refused("SAID_LINES", "said")
    assert not is_refused("untold", "told") and not is_refused("as_told_by", "told")


def test_rooms_keep_their_budget():
    rooms = {file.relative_to(ROOMS).parts[0] for file in ROOMS.glob("*/*.py")} - {"shared", "exercises"}
    lines = {room: sum(len(file.read_text().splitlines()) for file in (ROOMS / room).rglob("*.py")) for room in rooms}
    over = {room: n for room, n in lines.items() if n > OVER.get(room, LARGE_ROOM)}
    assert not over, f"rooms over their budget: {over}"
    large = [room for room, n in lines.items() if n > ROOM and room not in OVER]
    assert len(large) <= 6, f"more rooms than six have over {ROOM} lines: {large}"
    done = [room for room, most in OVER.items() if lines[room] <= LARGE_ROOM]
    assert not done, f"these rooms keep the budget now, and OVER names them still: {done}"
