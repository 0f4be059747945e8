"""Run notebooks as on Google Colab: with the versions that Colab has, and the book installed as the setup cell does it.

    python book/tools/colab.py [NAME …]        all notebooks, or those named (with or without .ipynb)

``book/colab.txt`` lists what Colab has. The environment is made once, in ``_build/colab``: by uv, if it is there, with
Colab's Python and the CPU build of torch, else by pip with the Python and the build that are found. The notebooks run
where no package of the book stands beside them; the setup cell of the first installs this checkout, packed, instead of
the repository that it names. Caches begin empty. Missing: a GPU, Colab's own shell, and the package ``google.colab``.

A cell that raises does not end its notebook. Exits with 1 if a cell raised or wrote to stderr, or if a package that
Colab brings was replaced.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import nbformat
from execute import chosen
from nbclient import NotebookClient
from packaging.utils import canonicalize_name
from rehearse import troubles_of
from repository import current
from tqdm import tqdm

ROOT = Path(__file__).resolve().parents[2]
PINS = ROOT / "book/colab.txt"
FOLDER = ROOT / "_build/colab"
ENV = FOLDER / "env"
PYTHON = "3.13"
NO_COLAB = "No CUDA runtime is found, using CUDA_HOME="
"""What torch's CUDA build says beside CUDA's programs where there is no GPU: of no Colab."""
LIKE_COLAB = {"COLAB_RELEASE_TAG": "release-colab_20260819", "MPLBACKEND": "module://matplotlib_inline.backend_inline"}


@dataclass(frozen=True)
class Run:
    """One notebook from start to end: what went wrong, a line for each, and the seconds of three spans.

    ``installed_s`` is the setup cell, ``figure_s`` it and what follows up to the chapter's first figure.
    """

    troubles: tuple[str, ...]
    seconds: float
    installed_s: float
    figure_s: float


def pinned_versions(text: str) -> dict[str, str]:
    """Versions by package, as pip compares names. Raises ValueError for a line that is no ``name==version``."""
    versions = {}
    for line in filter(None, (line.partition("#")[0].strip() for line in text.splitlines())):
        name, equal, version = line.partition("==")
        if not re.fullmatch(r"[\w.-]+", name) or not equal or not re.fullmatch(r"[\w.!]+", version):
            raise ValueError(f"colab.txt: {line!r} is not 'name==version'")
        versions[canonicalize_name(name)] = version
    return versions


def installed(env: Path = ENV) -> dict[str, str]:
    """Versions by package in an environment, without what a builder adds to them (+cpu)."""
    folders = [str(each) for each in env.glob("lib/python*/site-packages")]
    found = metadata.distributions(path=folders)
    return {canonicalize_name(each.name): each.version.partition("+")[0] for each in found}


def replaced(before: dict[str, str], after: dict[str, str]) -> list[str]:
    """Each package that is no longer what it was. One that has come is none."""
    return [
        f"{name} {version} was replaced by {after[name]}" if name in after else f"{name} {version} is gone"
        for name, version in before.items()
        if after.get(name) != version
    ]


def environment() -> None:
    """Make the environment anew if it is not as listed. Raises CalledProcessError if that fails."""
    wanted = pinned_versions(PINS.read_text("utf-8"))
    if replaced(wanted, installed()):
        print(f"The packages of Colab, into {ENV.relative_to(ROOT)}: once, some minutes")
        if uv := shutil.which("uv"):
            subprocess.run([uv, "venv", "--clear", "--python", PYTHON, ENV], check=True)
            install = [uv, "pip", "install", "--python", ENV]
            subprocess.run([*install, "--torch-backend", "cpu", f"torch=={wanted['torch']}"], check=True)
            subprocess.run([*install, "-r", PINS], check=True)
        else:
            subprocess.run([_python(), "-m", "venv", "--clear", ENV], check=True)
            subprocess.run([ENV / "bin/python", "-m", "pip", "install", "-r", PINS], check=True)
        if wrong := replaced(wanted, installed()):
            raise SystemExit(f"{ENV.relative_to(ROOT)} is not what {PINS.name} lists: {'; '.join(wrong)}")
    kernel = ["ipykernel", "install", "--prefix", ENV, "--name", "colab"]
    subprocess.run([ENV / "bin/python", "-m", *kernel], check=True, capture_output=True)


def _python() -> str:
    """Colab's Python, or else the one that runs this."""
    found = shutil.which(f"python{PYTHON}")
    works = found and subprocess.run([found, "--version"], capture_output=True).returncode == 0
    return found if works else sys.executable


def packed() -> Path:
    """This checkout as a source archive, from which pip builds the packages as it does from the repository."""
    shutil.rmtree(FOLDER / "packed", ignore_errors=True)
    build = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", FOLDER / "packed"]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (archive,) = (FOLDER / "packed").glob("*.tar.gz")
    return archive


def installing(source: str, url: str, archive: Path) -> str:
    """The setup cell with the archive where the repository stands. Raises ValueError if it installs something else."""
    pointed, count = re.subn(rf"(git\+)?{re.escape(url)}[^\s\"']*", str(archive), source)
    if count != 1:
        raise ValueError(f"the setup cell names {url} {count} times, and once is expected:\n{source}")
    return pointed


def run(path: Path, archive: Path, home: Path) -> Run:
    """Run one notebook in the environment. Nothing of it is stored."""
    notebook = nbformat.read(path, as_version=4)
    tags = [cell.metadata.get("tags", []) for cell in notebook.cells]
    setup, opening = (next(i for i, each in enumerate(tags) if tag in each) for tag in ("setup", "opening"))
    notebook.cells[setup].source = installing(notebook.cells[setup].source, current(), archive)
    ended: dict[int, float] = {}
    cells = sum(cell.cell_type == "code" for cell in notebook.cells)
    with tqdm(total=cells, desc=path.stem, unit="cell", leave=False, disable=None) as bar:

        def count(cell_index: int, **_: object) -> None:
            ended[cell_index] = time.perf_counter()
            bar.update()

        client = NotebookClient(
            notebook,
            timeout=600,
            kernel_name="colab",
            allow_errors=True,
            store_widget_state=False,
            resources={"metadata": {"path": str(home)}},
            on_cell_executed=count,
        )
        with client.setup_kernel(env=_environ(home), stderr=subprocess.DEVNULL):  # a debugger's greeting
            start = time.perf_counter()
            for index, cell in enumerate(notebook.cells):
                client.execute_cell(cell, index)
    seconds = (each - start for each in (max(ended.values()), ended[setup], ended[opening]))
    troubles = (each for number, cell in enumerate(notebook.cells) for each in troubles_of(number, cell))
    return Run(tuple(each for each in troubles if not all(NO_COLAB in line for line in each.splitlines())), *seconds)


def _environ(home: Path) -> dict[str, str]:
    """This process's, as Colab's: its marks, its programs first, and nothing that was compiled before."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    caches = {"TORCHINDUCTOR_CACHE_DIR": str(home / "inductor"), "TRITON_HOME": str(home), "HOME": str(home)}
    return kept | LIKE_COLAB | caches | {"PATH": f"{ENV / 'bin'}{os.pathsep}{os.environ['PATH']}"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="01_graph_breaks; none: all")
    paths, count = chosen(parser.parse_args().names), 0
    sys.stdout.reconfigure(line_buffering=True)
    environment()
    archive = packed()
    os.environ["JUPYTER_PATH"] = str(ENV / "share/jupyter")  # where the kernel is found
    bare = [ENV / "bin/python", "-m", "pip", "uninstall", "-q", "-y", "compiled-training-step"]
    subprocess.run(bare, check=True, capture_output=True)
    before = installed()
    shown = " · ".join(f"{name} {before[name]}" for name in ("torch", "triton", "jax", "numpy", "ipywidgets"))
    print(f"Python {_version()} (Colab: {PYTHON}) · {shown}")
    with tempfile.TemporaryDirectory(dir=FOLDER) as home:
        for path in tqdm(paths, unit="chapter", disable=None):  # on a terminal; elsewhere a line each is enough
            done = run(path, archive, Path(home))
            tqdm.write(f"{path.stem}: {done.seconds:.0f} s, {len(done.troubles)} troubles")
            if path == paths[0]:
                spans = f"{done.figure_s:.1f} s, {done.installed_s:.1f} of them to install the book"
                tqdm.write(f"    from the setup cell to the first figure: {spans}")
            wrong = [*done.troubles, *replaced(before, installed())]
            for line in wrong:
                tqdm.write(f"    {line}")
            count += len(wrong)
    sys.exit(bool(count))


def _version() -> str:
    asked = subprocess.run([ENV / "bin/python", "--version"], check=True, capture_output=True, text=True)
    return asked.stdout.split()[1]


if __name__ == "__main__":
    main()
