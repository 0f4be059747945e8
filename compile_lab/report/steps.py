"""The journey of one line of Python: a handful of lines from each stage, as they stand there, and what became of it."""

import re
from collections.abc import Collection
from dataclasses import dataclass

from ..doors import PrintedRepr, door
from ..inductor.records import EXTERN, Kernel
from ..inductor.view import shortened
from ..page.units import with_unit
from ..source import Line
from ..virtual_gpu.assembly import assemble
from . import listings
from .line import Followed, Trail
from .listings import Listing

SPECIAL = r"\.approx|sqrt|rcp"
"""What the special function unit of a chip computes, as PTX names it."""


@dataclass(frozen=True)
class Step:
    """One stage: its name, how much of it is the line's ("3 nodes"), what the line became, a few lines of its text."""

    stage: str
    size: str
    summary: str
    excerpt: Listing
    named: str = ""
    """What to look at: a pattern that one of the lines has."""


@dataclass(frozen=True, repr=False)
class Journey(PrintedRepr):
    """A line of Python through all stages, in order."""

    line: Line
    chip: str
    steps: tuple[Step, ...]

    def __str__(self) -> str:
        return "\n".join(f"{step.stage}: {step.summary}" for step in self.steps)


@door
def journey(trail: Trail, text: str, call: str, op: str, chip: str = "H200") -> Journey:
    """The one line of a trail that contains ``text``, from bytecode to the PTX of a chip.

    Where the line has become many, its excerpt stands around ``call`` (of Python: ``gelu``), further down around ``op``
    (of aten: ``tanh``). Raises KeyError, with what there is, if no line or several contain ``text``, and ValueError if
    no kernel that Inductor wrote for the forward computes ``op`` of the line.

    A line that has no such operation is refused:

    >>> import torch
    >>> from compile_lab.report import follow, journey
    >>> trail = follow(lambda x, w: x @ w, torch.ones(2, 4), torch.ones(4, 4, requires_grad=True), chip=None)
    >>> journey(trail, "x @ w", call="matmul", op="tanh")
    Traceback (most recent call last):
        ...
    ValueError: no kernel that Inductor wrote computes op='tanh' of ...: choose one of its operations
    """
    followed = trail[text]
    line, kernel = followed.line, listings.main_kernel(followed, "forward")
    triton = listings.triton(kernel, line) if kernel else Listing(())
    at = [number for number in triton.lit if re.search(rf"\b{op}\b", triton.lines[number - 1])]
    if kernel is None or not at:
        raise ValueError(f"no kernel that Inductor wrote computes op={op!r} of {line}: choose one of its operations")
    steps = _graphs(trail, followed, call, op) + _kernel(kernel, line, op, at, chip)
    return Journey(line, chip, (*steps, _launches(followed)))


def _graphs(trail: Trail, followed: Followed, call: str, op: str) -> tuple[Step, ...]:
    """From Python to the schedule: what is still a graph, or about to become one."""
    line = followed.line
    code, made = listings.bytecode(line), listings.dynamo(trail, followed)
    ahead, back = (listings.joint(trail, followed, direction) for direction in ("forward", "backward"))
    before = [listings.schedule(graph, line) for graph in trail.code.graphs]
    kept = sum(each.extra_nbytes for each in followed.saved)
    again = sum(each.nbytes > 0 for each in followed.recomputed)
    apart = rf"aten\.{op}\b"
    return (
        Step(
            "Python",
            "1 line",
            f"`{listings.owner(line)}`: {line}.",
            listings.python(line).around("", 2, 1),
            re.escape(line.text),
        ),
        Step(
            "Bytecode",
            f"{len(code.lit)} instructions",
            f"Python makes {len(code.lit)} instructions of it. Dynamo walks through them, and computes with no tensor.",
            code.around(rf"\b{call}\b", 2, 4),
            rf"\b{call}$",
        ),
        Step(
            "FX graph",
            f"{len(made.lit)} nodes",
            f"Dynamo records {len(made.lit)} calls as nodes. The modules are gone, and their weights are inputs.",
            made.around(rf"\b{call}\(", 1, 1),
            rf"\b{call}\(",
        ),
        Step(
            "Joint graph",
            f"{len(ahead.lit) + len(back.lit)} operations",
            f"AOTAutograd takes the calls apart into {len(ahead.lit)} operations, and derives {len(back.lit)} more for "
            f"the backward. {with_unit(kept)} are kept for it; {again} operations are computed again there.",
            _joined(ahead.around(apart, 1, 1), back.around(apart, 1, 1)),
            apart,
        ),
        Step(
            "Schedule",
            f"{len(before[0].lit) + len(before[-1].lit)} loops, calls",
            f"Inductor lowers them to {len(before[0].lit)} loops and calls forward and {len(before[-1].lit)} backward. "
            "An operation that a library computes stays a call.",
            before[0].around(rf"\b{op}\b", 1, 2),
            rf"\b{op}\b",
        ),
    )


def _kernel(kernel: Kernel, line: Line, op: str, at: Collection[int], chip: str) -> tuple[Step, ...]:
    """A kernel, and the program of one thread; `at` are the lines of its body that compute `op`."""
    assembly, triton = assemble(kernel, chip), listings.triton(kernel, line)
    whole, part = (listings.ptx(assembly, kernel, lines) for lines in (triton.lit, at))
    registers = "" if assembly.registers is None else f", in {assembly.registers} registers"
    return (
        Step(
            "Triton",
            f"{len(triton.lit)} lines",
            f"{len(listings.own_origins(kernel, line))} operations are one kernel: it moves "
            f"{with_unit(kernel.nbytes)}, and nothing between its load and its store touches memory.",
            triton.around(rf"\b{op}\b", 3, 3),
            rf"\b{op}\b",
        ),
        Step(
            "PTX",
            f"{len(whole.lit)} instructions",
            f"The program of one thread of an {chip}: {len(whole.lit)} instructions for the line, {len(part.lit)} of "
            f"them for `{op}`{registers}.",
            part.around(SPECIAL, 3, 2),
            SPECIAL,
        ),
    )


def _launches(followed: Followed) -> Step:
    ran = [each for each in followed.kernels if listings.own_origins(each, followed.line)]
    ahead = [each for each in ran if each.direction == "forward"]
    libraries = sum(each.language == EXTERN for each in ran)
    return Step(
        "Launches",
        f"{len(ran)} kernels",
        f"A training step launches {len(ran)} kernels for this line, {len(ahead)} forward and {len(ran) - len(ahead)} "
        f"backward; {libraries} of them are a library's.",
        Listing(tuple(map(_launched, ahead)), tuple(range(1, len(ahead) + 1))),
    )


def _launched(kernel: Kernel) -> str:
    return f"{shortened(kernel.name)}: {with_unit(kernel.nbytes)}"


def _joined(first: Listing, second: Listing) -> Listing:
    """Two excerpts with a gap between them."""
    by = len(first.lines) + 1
    return Listing((*first.lines, listings.LEFT_OUT, *second.lines), (*first.lit, *(at + by for at in second.lit)))
