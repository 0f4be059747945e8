"""Python in the reader's page: what a live explorer loads, in ``_static/live``. A page asks for it on the first move.

- Pyodide's core (CPython for browsers), pinned in ``book/node_modules``; its largest part is compressed here, so that a
  host need not
- ``python.zip``: of the standard library what our code imports, the book's own ``page`` and ``simulator``, and torch's
  tables of pipeline schedules (``schedules``), compiled (``library.py``)
- notices; the worker and the controls come from ``book/site_static/live``
"""

import gzip
import hashlib
import importlib.metadata
import json
import shutil
import subprocess
import tempfile
import zipfile
from pathlib import Path

from chapters.rooms import rooms

from . import assets, schedules

PYODIDE = assets.MODULES / "pyodide"
FOLDER = "_static/live"
SCRIPTS = ("pyodide.mjs", "pyodide.asm.mjs")
CORE = "pyodide.asm.wasm"
LIBRARY = "python_stdlib.zip"
LOCK = "pyodide-lock.json"
SOURCES = (
    "compile_lab/page/**/*.py",
    "compile_lab/simulator/*.py",
    "compile_lab/simulator/*.toml",
    "compile_lab/simulator/*.json",
)
SOURCES += ("compile_lab/doors.py", "compile_lab/source.py", "compile_lab/_torch/distributed.py")
SOURCES += ("chapters/exercises/*.py", "chapters/*/in_page.py")
SOURCES += ("compile_lab/virtual_gpu/chips.py", "compile_lab/virtual_gpu/warps.py")
FACES = ("chapters/exercises/__init__.py", "compile_lab/page/marks/__init__.py")
"""The faces that are needed: cells of exercises import from one, pictures from the other."""
EXPLORER, EXERCISE = '"live":{"panel":', "tag_in-page"
"""What stands in the page of an explorer that can be live, and of an exercise that plain Python judges."""

NOTICE = """Python in the page: whose work it is

Pyodide {pyodide}: Mozilla Public License 2.0. It contains CPython: Python Software Foundation License 2.
  Unchanged but for its packing: {core}.packed is {core}, compressed with gzip, and
  python.zip holds a part of its {library}.
  Sources: https://github.com/pyodide/pyodide/tree/{pyodide}, https://github.com/python/cpython
  Licences: https://www.mozilla.org/MPL/2.0/, https://docs.python.org/3/license.html
torch {torch}: BSD-3-Clause. In python.zip, {cut} is cut out of it.
  torch-LICENSE.txt has its copyright notices and its terms.
compile_lab: the book's own, under the book's licence.
"""


def ours(root: Path) -> dict[str, bytes]:
    """What a page may import besides the standard library, by path: the lab's plain packages, and torch's tables.

    Faces are empty but for two: they are for notebooks, and what the lab needs of itself it takes from its files.
    """
    files = {path.relative_to(root).as_posix(): path.read_bytes() for name in SOURCES for path in root.glob(name)}
    files[schedules.PLACE] = schedules.cut().encode()
    files["chapters/rooms.py"] = f"def rooms():\n    return {rooms()!r}\n".encode()
    packages = {parent.as_posix() for name in files for parent in Path(name).parents if parent.name}
    packages -= {package.replace(".", "/") for package in rooms().values()}  # each has one file, which needs no face
    empty = {f"{package}/__init__.py": b"" for package in packages}
    return files | empty | {face: (root / face).read_bytes() for face in FACES}


def write_library(root: Path, target: Path) -> None:
    """What the page's Python imports from, a zip: ``library.py`` says what it keeps."""
    with tempfile.NamedTemporaryFile(suffix=".zip") as sources:
        with zipfile.ZipFile(sources, "w") as archive:
            for name, content in ours(root).items():
                archive.writestr(name, content)
        sources.flush()
        program = Path(__file__).with_name("library.mjs")
        subprocess.run([assets.node_program(), program, root / PYODIDE, sources.name, target], check=True)


def write(root: Path, folder: Path) -> None:
    """Everything that a page loads but the worker and the controls, which Sphinx copies."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in SCRIPTS:
        shutil.copyfile(root / PYODIDE / name, folder / name)
    (folder / f"{CORE}.packed").write_bytes(gzip.compress((root / PYODIDE / CORE).read_bytes(), 9, mtime=0))
    write_library(root, folder / "python.zip")
    lock = json.loads((root / PYODIDE / LOCK).read_text("utf-8"))
    (folder / LOCK).write_text(json.dumps(lock | {"packages": {}}), "utf-8")  # none is here, and none is looked up
    torch = importlib.metadata.distribution("torch")
    (folder / "torch-LICENSE.txt").write_text(torch.read_text("licenses/LICENSE"), "utf-8")
    version = json.loads((root / PYODIDE / "package.json").read_text("utf-8"))["version"]
    notice = NOTICE.format(pyodide=version, torch=torch.version, core=CORE, library=LIBRARY, cut=schedules.PLACE)
    (folder / "NOTICE.txt").write_text(notice, "utf-8")


def loaded_nbytes(folder: Path) -> int:
    """What comes over the wire, once for all pages, from a host that compresses scripts as all do."""
    scripts = sum(len(gzip.compress((folder / name).read_bytes(), 6)) for name in SCRIPTS)
    return scripts + sum((folder / name).stat().st_size for name in (f"{CORE}.packed", "python.zip"))


def up_to_date(root: Path, folder: Path) -> bool:
    made = folder / "NOTICE.txt"  # the last that is written
    sources = [root / "book/package-lock.json", root / "requirements.txt", *Path(__file__).parent.glob("*.*")]
    sources += [path for name in SOURCES for path in root.glob(name)]
    return made.exists() and made.stat().st_mtime > max(path.stat().st_mtime for path in sources)


def prepare(app):
    """Before the pages, since they say how much it is."""
    if app.builder.format == "html":
        folder = Path(app.outdir) / FOLDER
        if not up_to_date(Path(app.srcdir), folder):
            write(Path(app.srcdir), folder)
        version = hashlib.sha256((folder / "python.zip").read_bytes()).hexdigest()[:8]
        app.lab_live = f'<meta name="lab-live" content="{loaded_nbytes(folder)}" data-version="{version}">'


def announce(app, pagename, templatename, context, doctree):
    """A page with something live gets its controls, the size of what they would load, and which version to ask for."""
    body = context.get("body", "")
    if EXPLORER in body or EXERCISE in body:
        context["metatags"] = f"{context.get('metatags', '')}\n{app.lab_live}"
        app.add_js_file("live/controls.js", loading_method="defer", priority=900)  # after lab.js
    if EXERCISE in body:
        app.add_js_file("live/answers.js", loading_method="defer", priority=910)


def setup(app):
    app.connect("builder-inited", prepare, priority=600)  # after assets.require
    app.connect("html-page-context", announce)
