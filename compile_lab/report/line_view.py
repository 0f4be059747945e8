"""One line of Python through all stages, as an explorer: listings side by side, the line's own lit in each."""

import functools
import html
import re
import textwrap
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from ..inductor.records import EXTERN, Kernel
from ..inductor.view import operations, shortened
from ..page.explore import Explorer
from ..page.tables import MARK, Code, Table
from ..page.units import with_unit
from ..virtual_gpu.assembly import Assembly, assemble
from . import listings
from .line import Followed, Trail
from .listings import Listing

LONGEST_OPTION = 44
DIRECTIONS = ("forward", "backward")
LOOKED_AT = r"\.approx|shfl\.sync|ld\.global"
"""What is worth a look in PTX: the special functions, the talk among threads, a load."""


@dataclass(frozen=True)
class Column:
    """One stage of the follower: its name, what is counted there, and its text."""

    stage: str
    caption: str
    listing: Listing


@dataclass(frozen=True)
class SideBySide(Code):
    """Listings as columns, as many in a row as there is room for; in text one under the other."""

    columns: tuple[Column, ...] = ()

    def __repr__(self) -> str:
        return "\n\n".join(
            "\n".join([f"{column.stage}: {column.caption}", *_marked(column.listing)]) for column in self.columns
        )

    def _repr_html_(self) -> str:
        # Where the site's style sheet is not, in JupyterLab, the columns stand side by side all the same.
        style = "display: grid; grid-template-columns: repeat(auto-fit, minmax(min(14rem, 100%), 1fr)); gap: 0.6rem"
        return f'<div class="lab-stages" style="{style}">{"".join(map(_column, self.columns))}</div>'


def explorer(trail: Trail, title: str = "What becomes of one line") -> Explorer:
    """One axis: the line. Its panel shows all stages, forward and backward."""
    by_option = {_option(each): each for each in trail.lines}
    chip = trail.code.chip or ""  # without one nothing is asked for its PTX
    assembled = functools.cache(lambda source: assemble(_by_source(trail)[source], chip))
    return Explorer(title, {"line": list(by_option)}, lambda line: panel(trail, by_option[line], assembled))


def panel(trail: Trail, followed: Followed, assembled: Callable[[str], Assembly]) -> list[str | Table | Code]:
    """The stages side by side, what is kept for the backward, and every launch; `assembled` gives a source's PTX."""
    line = followed.line
    columns = [
        Column("Python", str(line), listings.python(line)),
        _counted("FX graph (Dynamo)", "calls", listings.dynamo(trail, followed)),
        *(_counted(f"joint graph, {each}", "operations", listings.joint(trail, followed, each)) for each in DIRECTIONS),
        _schedules(trail, followed),
        *(_triton(followed, direction) for direction in DIRECTIONS),
        *(_ptx(trail, followed, direction, assembled) for direction in DIRECTIONS),
    ]
    return [SideBySide("", columns=tuple(columns)), kept(followed), launches(followed)]


def kept(followed: Followed) -> str:
    """What the backward of the line finds in memory, and what it computes again, in a sentence."""
    saved = [f"`{each.title or each.name}` {with_unit(each.extra_nbytes)}" for each in followed.saved]
    own = [text for text, each in zip(saved, followed.saved, strict=True) if each.extra_nbytes]
    again = operations(each.op for each in followed.recomputed if each.nbytes)
    return f"Kept for the backward: {', '.join(own) or 'nothing'}. Computed again there: {again or 'nothing'}."


def launches(followed: Followed) -> Table:
    """One row a launch that computes something of the line: how much of it, and how much else."""
    rows = []
    for kernel in followed.kernels:
        own = listings.own_origins(kernel, followed.line)
        by = "a library" if kernel.language == EXTERN else kernel.language
        if own:
            others = len(kernel.computed) - len(own)
            ops = operations(origin.op for origin in own)
            rows.append((kernel.direction, Code(shortened(kernel.name)), by, ops, others))
    columns = ["", "kernel", "written in", "of this line", "operations of other lines"]
    return Table(columns, rows, align="llllr", folded=f"The {len(rows)} launches that compute something of this line")


def _counted(stage: str, things: str, listing: Listing) -> Column:
    """A graph without the types of its values, which would fill the column."""
    plain = Listing(tuple(re.sub(r': ".*?" = ', " = ", text) for text in listing.lines), listing.lit)
    return Column(stage, f"{len(listing.lit)} {things}", plain.shortened())


def _schedules(trail: Trail, followed: Followed) -> Column:
    found = [listings.schedule(graph, followed.line) for graph in trail.code.graphs]
    told = " and ".join(
        f"{len(each.lit)} {graph.direction}" for each, graph in zip(found, trail.code.graphs, strict=True)
    )
    headed = [
        Listing((f"# {graph.direction}", *each.shortened(0).lines), tuple(at + 1 for at in each.shortened(0).lit))
        for each, graph in zip(found, trail.code.graphs, strict=True)
    ]
    return Column("schedule, before fusion", told, _under(headed))


def _triton(followed: Followed, direction: str) -> Column:
    """What computes the line in each kernel of a direction; a call of a library is its name."""
    named: dict[str, Listing] = {}
    count = 0
    for kernel in followed.kernels:
        if kernel.direction != direction or not listings.own_origins(kernel, followed.line):
            continue
        count += 1
        name = f"# {shortened(kernel.name)}"
        if kernel.language == EXTERN:
            name, body = f"{name}: a library's", Listing(())
        else:
            body = folded(kernel, kernel.computing(followed.line))
        named[name] = Listing((name, *body.lines), tuple(at + 1 for at in body.lit))
    told = f"{count} launch{'es' * (count != 1)}"
    return Column(f"Triton, {direction}", told, _under(named.values()))


def _ptx(trail: Trail, followed: Followed, direction: str, assembled: Callable[[str], Assembly]) -> Column:
    """One thread's instructions for the line, of the kernel that computes most of it."""
    kernel, stage = listings.main_kernel(followed, direction), f"PTX, {direction}"
    if kernel is None or trail.code.chip is None:
        return Column(stage, "none: a library computes it", Listing(()))
    assembly = assembled(kernel.source)
    found = listings.ptx(assembly, kernel, kernel.computing(followed.line))
    shown = found.around(LOOKED_AT, 4, 14)
    return Column(stage, f"{len(found.lit)} instructions in {shortened(kernel.name)}", shown)


def folded(kernel: Kernel, marked: Collection[int]) -> Listing:
    """A kernel's code with the given lines lit and what is between them left out. With none, the whole."""
    lines = tuple(text.removeprefix("    ") for text in kernel.body.split("\n"))
    return Listing(lines, tuple(marked)).shortened(0) if marked else Listing(lines)


def _under(parts: Iterable[Listing]) -> Listing:
    """Listings one under the other."""
    lines: list[str] = []
    lit: list[int] = []
    for part in parts:
        lit += [at + len(lines) for at in part.lit]
        lines += part.lines
    return Listing(tuple(lines), tuple(lit))


def _column(column: Column) -> str:
    stage = html.escape(column.stage)
    lines = [
        f"<mark>{html.escape(text)}</mark>" if at in column.listing.lit else html.escape(text)
        for at, text in enumerate(column.listing.lines, 1)
    ]
    # A reader without a mouse scrolls what has the focus.
    style = "max-height: 9.5rem; overflow: auto; margin: 0"
    body = f'<pre tabindex="0" role="region" aria-label="{stage}" style="{style}">'
    return (
        f'<section style="min-width: 0"><p class="lab-stage"><strong>{stage}</strong> {html.escape(column.caption)}</p>'
        f"{body}{chr(10).join(lines)}</pre></section>"
    )


def _marked(listing: Listing) -> list[str]:
    return [f"{MARK if at in listing.lit else ' '} {text}" for at, text in enumerate(listing.lines, 1)]


def _by_source(trail: Trail) -> dict[str, Kernel]:
    return {kernel.source: kernel for kernel in trail.code.written}


def _option(followed: Followed) -> str:
    text = textwrap.shorten(followed.line.text, LONGEST_OPTION, placeholder=" …")
    return f"{followed.line.line}: {text}"
