"""Where a line of code is, said as a reader would say it: ``cell 3, line 5``, or ``json/encoder.py, line 12``."""

import functools
import linecache
import re
import sys
import sysconfig
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from . import doors


def _folders(*names: str) -> list[Path]:
    """Where this Python keeps its libraries; both names of a folder that is reached through a link, as a frame may."""
    folders = [Path(sysconfig.get_path(name)) for name in names]
    return [*folders, *(folder.resolve() for folder in folders)]


_LIBRARIES, _STDLIB = _folders("purelib", "platlib", "stdlib"), _folders("stdlib")
PACKAGE = Path(__file__).parent
"""The folder of compile_lab: a frame of a file in it is the lab's own."""


@dataclass(frozen=True)
class Line:
    """One line of source: the file that Python names, the line (from 1), the function, and the text."""

    file: str
    line: int
    function: str = ""
    text: str = ""

    def __str__(self) -> str:
        return place(self.file, self.line)

    def is_same_place(self, other: "Line") -> bool:
        """True for the same line of the same file, whatever else is known of either."""
        return (self.file, self.line) == (other.file, other.line)

    @property
    def is_users(self) -> bool:
        """False for lines of Python, of torch, of a door: they carry a break out, the line that called them made it."""
        path = Path(self.file)
        if self.file == doors.__file__:
            return False
        library = any(part in ("site-packages", "dist-packages") for part in path.parts)
        if library:
            return not _inside_torch(path)
        if any(part.startswith("torchinductor_") for part in path.parts):  # what Inductor wrote, in its cache
            return False
        return not (self.file.startswith("<frozen") or any(map(path.is_relative_to, _STDLIB)))


def place(file: str, line: int) -> str:
    """Say where a line is without naming a folder of this machine.

    A notebook's cell is named by its execution count; a library's file by its path inside the library; any other
    file by its bare name.
    """
    if (cell := _cell_number(file)) is not None:
        return f"cell {cell}, line {line}"
    path = Path(file)
    for root in _LIBRARIES:
        if path.is_relative_to(root):
            return f"{path.relative_to(root).as_posix()}, line {line}"
    return f"{path.name}, line {line}"


def stack(traceback: str) -> tuple[Line, ...]:
    """The lines of a traceback as Python prints it, and Dynamo after it ("from user code"), outermost first. One whose
    file could not be read has no text."""
    found = re.finditer(r'^ {2,3}File "([^"]+)", line (\d+)(?:, in (.+))?(?:\n {3,}(.*))?', traceback, re.MULTILINE)
    return tuple(Line(m[1], int(m[2]), m[3] or "", (m[4] or "").strip()) for m in found)


def users_line(frame: FrameType | None, *own: str) -> Line | None:
    """The innermost of the user's lines from ``frame`` outwards; lines of the files ``own`` are passed over."""
    while frame is not None:
        file = frame.f_code.co_filename
        if file not in own and is_users(file):
            text = linecache.getline(file, frame.f_lineno).strip()
            return Line(file, frame.f_lineno, frame.f_code.co_qualname, text)
        frame = frame.f_back
    return None


def readers_line(lines: Iterable[Line]) -> Line | None:
    """The first of these lines that is neither Python's, torch's nor the lab's own: what a reader can change."""
    return next((line for line in lines if line.is_users and not Path(line.file).is_relative_to(PACKAGE)), None)


@functools.cache
def is_users(file: str) -> bool:
    return Line(file, 1).is_users


def _inside_torch(path: Path) -> bool:
    folders = path.parts
    at = max(i for i, part in enumerate(folders) if part in ("site-packages", "dist-packages"))
    return folders[at + 1 : at + 2] == ("torch",)


def _cell_number(file: str) -> int | None:
    """The execution count of the cell that IPython compiled under this file name, if it did."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    # IPython 7 (older Colab) keeps no such map; its file names hold the number themselves: <ipython-input-3-…>.
    counts: dict[str, int] | None = getattr(getattr(shell, "compile", None), "_filename_map", None)
    if counts is None:
        head, _, rest = file.partition("<ipython-input-")
        return int(rest.split("-")[0]) if not head and rest else None
    if file not in counts:
        return None
    if len(counts) > 1 and len(set(counts.values())) == 1:
        # Run without history (as nbval does), IPython counts every cell as the first: the order they came in is left.
        return list(counts).index(file) + 1
    return counts[file]
