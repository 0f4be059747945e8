"""Which line of each stage came from which line of the Triton source? Pure joins over what the compilers note down.

TTIR and TTGIR end each operation with ``loc(…)``; PTX puts ``.loc`` before each group of instructions, with the chain
of inlined calls as a comment; SASS, printed by ``nvdisasm -gp``, names the PTX line. A line of a library function
(``tl.max``, say) counts for the line of the kernel that called it.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator

from ..doors import door

SOURCE = "kernel.py"
"""The name under which a kernel is compiled, and so the name of its lines in every stage."""

Lines = dict[int, tuple[int, ...]]
"""Line of the Triton source to the lines of one stage, all counted from 1."""


def without_locations(mlir: str) -> tuple[str, Lines]:
    """TTIR or TTGIR without its ``loc(…)`` notes, and what they said."""
    named = dict(re.findall(r"^(#loc\d*) = loc\((.*)\)$", mlir, re.MULTILINE))
    text: list[str] = []
    sources: list[int | None] = []
    opened: list[int] = []
    for line in mlir.splitlines():
        if line.startswith("#loc"):
            continue
        plain, locations = _split_locations(line)
        text.append(plain)
        sources.append(_line_of(locations[-1], named) if locations else None)
        if plain.lstrip().startswith("}") and opened:
            sources[opened.pop()] = sources[-1]  # an operation with a body is located where the body ends
        if plain.rstrip().endswith("{"):
            opened.append(len(text) - 1)
    return "\n".join(text), _joined(zip(sources, range(1, len(text) + 1), strict=True))


def _split_locations(line: str) -> tuple[str, list[str]]:
    """A line of MLIR without its ``loc(…)``, and the insides of these."""
    plain, locations = "", []
    while (start := line.find(" loc(")) >= 0:
        depth, end = 1, start + 5
        while depth and end < len(line):
            depth += {"(": 1, ")": -1}.get(line[end], 0)
            end += 1
        plain += line[:start]
        locations.append(line[start + 5 : end - 1])
        line = line[end:]
    return plain + line, locations


def _line_of(location: str, named: dict[str, str]) -> int | None:
    """The kernel's line that a location leads to: of a call site, the caller's."""
    if location in named:
        return _line_of(named[location], named)
    if place := re.fullmatch(r'"([^"]*)":(\d+):\d+.*', location):
        return int(place[2]) if place[1].endswith(SOURCE) else None
    if call := re.fullmatch(r"callsite\((.*) at (.*?)\)", location):
        return _line_of(call[2], named) or _line_of(call[1], named)
    inner = re.findall(r"#loc\d*", location)  # a name around it, or several fused into one
    return next((line for one in inner if (line := _line_of(one, named))), None)


def ptx_lines(ptx: str) -> Lines:
    """The kernel's lines to the instructions that follow their ``.loc``."""
    return _joined((line, at) for at, line in _ptx_sources(ptx).items())


def _ptx_sources(ptx: str) -> dict[int, int]:
    """Each instruction's line to the kernel's line that it came from."""
    own = set(re.findall(rf"\.loc\s+(\d+) .*// {re.escape(SOURCE)}:", ptx))
    found, current, inline = {}, None, False
    callers: dict[str, int | None] = {}
    for at, line in enumerate(ptx.splitlines(), 1):
        text = line.strip()
        if line.startswith("}"):
            current = None  # what follows the function is debug data
        elif text in ("// begin inline asm", "// end inline asm"):
            inline = text == "// begin inline asm"
        elif text.startswith(".loc"):
            if not inline:  # there Triton 3.9 counts on, from the kernel's line that the whole block stands for
                current = _kernels_line(text, own, callers)
        elif current and is_instruction(line):
            found[at] = current
    return found


def _kernels_line(loc: str, own: set[str], callers: dict[str, int | None]) -> int | None:
    """The kernel's line that a ``.loc`` leads to: of inlined code, the outermost caller's.

    Triton 3.7 gives the chain as a comment, ``// standard.py:189:40 @[ kernel.py:12:4 ]``. Triton 3.9 gives the next
    caller, ``inlined_at 2 216 16``: a place in the kernel's ``own`` file, or one of an earlier ``.loc``, which
    ``callers`` remembers.
    """
    if not (found := re.match(r"\.loc\s+(\d+ \d+ \d+)(?:.* inlined_at (\d+ \d+ \d+))?", loc)):
        return None
    place, caller = found.groups()
    if caller:
        file, line, _ = caller.split()
        callers[place] = callers.get(caller) or (int(line) if file in own else None)
        return callers[place]
    chain = re.findall(rf"{re.escape(SOURCE)}:(\d+):", loc)
    return int(chain[-1]) or None if chain else None


def is_instruction(line: str) -> bool:
    """True for a line of PTX or SASS that does something: no label, directive, comment or bracket."""
    text = line.split("//")[0].strip()
    return bool(text) and not text.endswith(":") and text[0] not in ".{}$()"


def without_notes(sass: str, ptx: str) -> tuple[str, Lines]:
    """The instructions of ``nvdisasm -c -gp``, without addresses, and the kernel's lines that they came from."""
    sources = _ptx_sources(ptx)
    text, found, current = [], [], None
    for line in sass.splitlines():
        if note := re.search(r"//## File .*, line (\d+)", line):
            current = sources.get(int(note[1]))
        elif instruction := re.match(r"\s*/\*[0-9a-f]{4,}\*/\s+(.*?)\s*;", line):
            text.append(instruction[1])
            found.append((current, len(text)))
        elif re.match(r"\.L_\w+:", line):
            text.append(line)
    return "\n".join(text), _joined(found)


def _joined(pairs: Iterable[tuple[int | None, int]]) -> Lines:
    lines = defaultdict(list)
    for source, at in pairs:
        if source:
            lines[source].append(at)
    return {source: tuple(lines[source]) for source in sorted(lines)}


@door
def opcodes(code: str) -> Iterator[str]:
    """The operation of each instruction of PTX or SASS, without its predicate: ``ex2.approx.f32``, ``LDG.E.128``.

    >>> from compile_lab.virtual_gpu import opcodes
    >>> [*opcodes("LDG.E.128 R4, [R2.64];"), *opcodes("@!P0 MUFU.EX2 R5, R4;"), *opcodes("// nothing")]
    ['LDG.E.128', 'MUFU.EX2']
    """
    for line in code.splitlines():
        if is_instruction(line):
            yield re.sub(r"^@!?%?\w+\s+", "", line.strip()).split()[0].rstrip(";")
