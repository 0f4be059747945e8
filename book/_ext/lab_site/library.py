"""Runs in Pyodide while the book is built: packs what the page's Python imports, from /ours.zip into /python.zip.

Kept is what a trial reads: of the standard library, and of what our modules need to show something (what is named in
the trial are all others). It is compiled, by the very Python that will run it: that halves the time until a page's
first answer. The standard library goes without its docstrings.
"""

import importlib
import sys
import zipimport

OURS = "/ours.zip"
sys.path.insert(0, OURS)
names = [name for name in zipimport.zipimporter(OURS)._get_files() if name.endswith(".py")]
for name in names:
    if not name.endswith("__init__.py") and not name.startswith("compile_lab/page/"):
        importlib.import_module(name.removesuffix(".py").replace("/", "."))

import bisect  # noqa: E402, F401 - what an answer to an exercise may want
import collections  # noqa: E402, F401
import fractions  # noqa: E402, F401
import heapq  # noqa: E402, F401
import itertools  # noqa: E402, F401
import statistics  # noqa: E402, F401

from compile_lab.page.live import answer  # noqa: E402

try:  # what it takes to say what went wrong
    answer('{"panel": "compile_lab.nowhere:nothing", "choice": {}}')
except ImportError:
    import traceback

    traceback.format_exc()
read = {getattr(module, "__file__", None) or "" for module in list(sys.modules.values())}

import marshal  # noqa: E402
import zipfile  # noqa: E402
from importlib.util import MAGIC_NUMBER, source_hash  # noqa: E402


def compiled(source: bytes, path: str, optimize: int) -> bytes:
    """A .pyc that is never compared with its source, which is not there."""
    code = compile(source, path, "exec", dont_inherit=True, optimize=optimize)
    return MAGIC_NUMBER + (1).to_bytes(4, "little") + source_hash(source) + marshal.dumps(code)


library = next(path for path in sys.path if path.endswith(".zip") and path != OURS)
with zipfile.ZipFile("/python.zip", "w") as made:
    for place, optimize in ((library, 2), (OURS, 0)):
        with zipfile.ZipFile(place) as archive:
            for name in sorted(archive.namelist()):
                content, kept = archive.read(name), f"{place}/{name}" in read
                if kept:
                    content = compiled(content, f"{library}/{name}", optimize)
                if kept or (place == OURS and not name.endswith(".py")):
                    entry = zipfile.ZipInfo(f"{name}c" if kept else name)
                    made.writestr(entry, content, zipfile.ZIP_DEFLATED, 9)
