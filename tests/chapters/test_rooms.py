"""A chapter can be deleted whole: notebook, room, tests, line in ``_toc.yml``, links to it. Everything else passes."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NUMBER, ROOM = "15", "gspmd"
NOTEBOOK = f"{NUMBER}_{ROOM}"
LEFT_OUT = (".git", ".venv", "_build", "node_modules", "__pycache__", ".pytest_cache", ".ruff_cache")


def without_its_lines(root: Path) -> None:
    """Out of the contents, and without the links to it. The landing page leaves out by itself what has gone."""
    contents = root / "_toc.yml"
    contents.write_text(re.sub(rf".*{NOTEBOOK}\n", "", contents.read_text("utf-8")), "utf-8")
    link = re.compile(rf"\[([^\]]*)\]\((?:[^)\s]*/)?{NOTEBOOK}\.ipynb[^)]*\)(?:{{[^}}]*}})?")
    for path in (root / "book").glob("*.md"):
        path.write_text(link.sub(r"\1", path.read_text("utf-8")), "utf-8")
    for path in (root / "notebooks").glob("*.ipynb"):
        notebook = json.loads(path.read_text("utf-8"))
        for cell in notebook["cells"]:
            if cell["cell_type"] == "markdown":
                cell["source"] = link.sub(r"\1", "".join(cell["source"]))
        path.write_text(json.dumps(notebook), "utf-8")


@pytest.fixture(scope="module")
def shorter(tmp_path_factory):
    """The repository without the chapter, and how to run one of this environment's commands in it."""
    root = tmp_path_factory.mktemp("shorter") / "book"
    shutil.copytree(ROOT, root, ignore=shutil.ignore_patterns(*LEFT_OUT))
    (root / "book/node_modules").symlink_to(ROOT / "book/node_modules")
    (root / f"notebooks/{NOTEBOOK}.ipynb").unlink()
    for folder in (f"chapters/{ROOM}", f"tests/chapters/{ROOM}"):
        shutil.rmtree(root / folder)
    without_its_lines(root)

    def run(command: str, *arguments: str) -> subprocess.CompletedProcess:
        program = str(Path(sys.executable).with_name(command))
        environment = {**os.environ, "PYTHONPATH": str(root)}  # ahead of the installed copy
        return subprocess.run([program, *arguments], cwd=root, env=environment, capture_output=True, text=True)

    return run


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        ("ruff", "check", "."),
        ("lint-imports", "--no-cache"),
        ("python", "-m", "pytest", "--collect-only", "-q", "tests"),
        ("jupyter-book", "build", ".", "-W", "-n", "--keep-going"),
    ],
    ids=["style", "imports", "collection", "site"],
)
def test_what_is_left_still_passes(shorter, command):
    done = shorter(*command)
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
