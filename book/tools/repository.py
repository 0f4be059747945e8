"""The repository's address. It stands in ``_config.yml`` (``repository.url``); everything else that names it follows.
So does what Colab installs: by the version in ``pyproject.toml`` a release's own tag, or what is being written.

python book/tools/repository.py        print the address
python book/tools/repository.py URL    move the book: settings, README, CITATION.cff, pages, the notebooks
"""

import re
import sys
import tomllib
from pathlib import Path

import nbformat
import yaml
from sources import sources

ROOT = Path(__file__).resolve().parents[2]
TEXTS = ("_config.yml", "README.md", "CITATION.cff", ".zenodo.json", "AGENTS.md", "paper.md", "book/your_model.md")
ADDRESS = re.compile(
    r"https://github\.com/(?P<owner>[A-Za-z0-9](?:-?[A-Za-z0-9]){0,38})/(?P<name>[A-Za-z0-9._-]{1,100})"
)
ARCHIVE = re.compile(r"(?<=/archive/)(?:main|refs/tags/v[\w.]+)(?=\.zip)")


def version(root: Path = ROOT) -> str:
    """The version in ``pyproject.toml``, the one place that says it; ``1.1.0.dev0`` is one that is being written."""
    return tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]["version"]


def archive(root: Path = ROOT) -> str:
    """Which state of the repository a reader on Colab installs: a release's tag, which never moves, or ``main``."""
    return "main" if "dev" in version(root) else f"refs/tags/v{version(root)}"


def setup_cell(url: str, archive: str = "main") -> str:
    """The first code cell of every notebook: finds the two packages, or on Colab installs them and nothing else."""
    return f"""\
import subprocess
import sys
from importlib import invalidate_caches
from importlib.util import find_spec
from pathlib import Path

if Path("../compile_lab").is_dir():  # a clone: use its packages
    sys.path.insert(0, str(Path("..").resolve()))
elif not find_spec("compile_lab"):  # on Colab, whose torch and numpy stay
    print("Installing the book's packages and typeguard: half a minute or so")
    address = "{url}/archive/{archive}.zip"
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps"]
    subprocess.run([*pip, "typeguard", address], check=True)
    invalidate_caches()
    print("Installed. All other packages are as they were.")"""


def current(root: Path = ROOT) -> str:
    """The address in ``_config.yml``."""
    return yaml.safe_load((root / "_config.yml").read_text("utf-8"))["repository"]["url"]


def spellings(url: str) -> tuple[str, str, str]:
    """The address as it is written for people, for Colab, and for the published pages."""
    owner, name = ADDRESS.fullmatch(url).group("owner", "name")
    return url, f"https://colab.research.google.com/github/{owner}/{name}", f"https://{owner.lower()}.github.io/{name}"


def check(url: str) -> None:
    """Raises ValueError, with the remedy, unless this is a GitHub repository's plain address."""
    if not ADDRESS.fullmatch(url) or url.endswith(".git"):
        raise ValueError(
            f"{url!r} is not a repository's address: give it as https://github.com/OWNER/NAME, "
            "without a trailing slash, '.git' or anything after the name. Nothing was changed."
        )


def renamed(text: str, old: tuple[str, ...], new: tuple[str, ...]) -> str:
    for before, after in zip(old, new, strict=True):
        text = re.sub(re.escape(before) + r"(?![\w-])", after, text)
    return text


def moved(root: Path, url: str) -> dict[Path, str]:
    """The new contents of every file that names the repository. Outputs stay: no cell's depends on where it lies."""
    old, new = spellings(current(root)), spellings(url)
    installed = archive(root)
    contents = {}
    for name in TEXTS:
        contents[root / name] = ARCHIVE.sub(installed, renamed((root / name).read_text("utf-8"), old, new))
    for path in sorted(root.glob("notebooks/*.ipynb")):
        notebook = nbformat.read(path, as_version=4)
        stored = notebook.metadata.get("compile_lab", {})
        is_current = stored.get("sources") == sources(notebook)
        for cell in notebook.cells:
            if "setup" in cell.metadata.get("tags", []):
                cell.source = setup_cell(url, installed)
            elif cell.cell_type == "markdown":
                cell.source = renamed(cell.source, old, new)
        if is_current:
            stored["sources"] = sources(notebook)
        contents[path] = nbformat.writes(notebook) + "\n"
    return contents


def move(root: Path, url: str) -> list[Path]:
    """Carries a new address to every place; returns the files that changed. A bad address changes nothing."""
    check(url)
    changed = {path: text for path, text in moved(root, url).items() if path.read_text("utf-8") != text}
    for path, text in changed.items():
        path.write_text(text, "utf-8")
    return list(changed)


def main(arguments: list[str]) -> int:
    if not arguments:
        print(current())
        return 0
    try:
        changed = move(ROOT, arguments[0])
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    for path in changed:
        print(f"changed {path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
