"""FlexAttention as a reader sees it: the blocks a mask visits, a function beside its Triton, bytes."""

import inspect
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence

from compile_lab.inductor.view import evidence
from compile_lab.page.figures import Drawing, Figure, Series, lines
from compile_lab.page.marks import Cell, cells
from compile_lab.page.tables import Code, Table

from .flex import FULL, PARTIAL, BlockVisits, FlexKernels

MEANT = {FULL: "every pair allowed: mask not evaluated", PARTIAL: "mask evaluated for each pair"}


def blocks(several: Mapping[str, BlockVisits], caption: str = "") -> Drawing:
    """A square a mask: a small square for each block of queries (downwards) and keys, by what becomes of it.

    Raises ValueError for no mask.
    """
    if not several:
        raise ValueError("no mask is given: give at least one, with its BlockVisits")
    grids = {
        f"{name}: {found.visited:,} of {found.blocks:,}": [
            [Cell(series=MEANT.get(letter, "")) for letter in row] for row in found.rows
        ]
        for name, found in several.items()
    }
    least, first = min(several, key=lambda name: several[name].visited), next(iter(several.values()))
    return cells(
        grids,
        title=f"Of {several[least].blocks:,} blocks “{least}” visits {several[least].visited:,}.",
        caption=caption
        or f"A small square is a block of {first.block} queries (downwards) and {first.block} keys; grey: left out",
        colours=dict(zip(MEANT.values(), ("blue", "orange"), strict=True)),
        table=counts(several),
    )


def counts(several: Mapping[str, BlockVisits]) -> Table:
    """One row a mask: blocks visited, those without evaluating the mask, and the pairs that are wasted."""
    rows = [
        (
            name,
            each.length,
            each.visited,
            each.blocks,
            each.full,
            f"{100 * each.share:.1f} %",
            f"{100 * each.wasted:.1f} %",
        )
        for name, each in several.items()
    ]
    columns = ["mask", "tokens", "blocks visited", "of", "mask not evaluated", "visited", "wasted pairs"]
    return Table(columns, rows, align="lrrrrrr")


def visited(several: Mapping[str, Sequence[BlockVisits]], caption: str = "") -> Figure:
    """Blocks visited against length on logarithmic axes, a line a mask, and all of them for comparison."""
    every = {each.length: each.blocks for found in several.values() for each in found}
    series = [Series("all blocks", sorted(every), [every[length] for length in sorted(every)])]
    series += [Series(name, [f.length for f in found], [f.visited for f in found]) for name, found in several.items()]
    ends = ", ".join(f"{one.name} {one.values[-1]:,}" for one in series)
    return lines(
        series,
        x_title="tokens",
        y_title="blocks visited",
        title=f"Blocks visited at {series[0].at[-1]:,} tokens: {ends}.",
        caption=caption,
        log_x=True,
        log_y=True,
    )


def side_by_side(found: FlexKernels, *functions: Callable[..., object]) -> Table:
    """One row a function of the user's, and its derivative: the source, and the lines that it became in each kernel.

    ``functions``: the mask, and the score if there was one, as they were given to `written`.
    """
    places = list(dict.fromkeys(each.inside for each in found.inlined))
    sources = dict(zip(("mask", "score"), map(_source, functions), strict=False))
    rows = []
    for role in dict.fromkeys(each.role for each in found.inlined):
        own = {each.inside: each for each in found.inlined if each.role == role}
        source = Code(sources[role]) if role in sources else "made by autograd" if "derivative" in role else ""
        rows.append((role, source, *(Code(own[place].code) if place in own else None for place in places)))
    return Table(["", "in Python", *map(_place, places)], rows, evidence(found.code), align="l" * (2 + len(places)))


def excerpt(found: FlexKernels, role: str = "mask", inside: str = "forward_block_mn", around: int = 4) -> Code:
    """The kernel's lines around a function, which are marked. ValueError where that role is not, or not there."""
    own = next((each for each in found.inlined if (each.role, each.inside) == (role, inside)), None)
    if own is None:
        there = "; ".join(f"{each.role} in {each.inside}" for each in found.inlined)
        raise ValueError(f"no {role} in {inside}; there are {there}")
    body = own.kernel.body.splitlines()
    first = max(1, own.first - around)
    shown = textwrap.dedent("\n".join(body[first - 1 : own.last + around]))
    marks = range(own.first - first + 1, own.last - first + 2)
    title = f"`{inside}` of `{own.kernel.name}`"
    blank = {at for at, line in enumerate(shown.splitlines(), 1) if not line.strip()}
    kept = [line for line in shown.splitlines() if line.strip()]
    moved = [mark - sum(at < mark for at in blank) for mark in marks if mark not in blank]
    return Code("\n".join(kept), title=title, mark=moved)


def peaks(several: Mapping[str, Mapping[int, int]], scores: Mapping[int, int], caption: str = "") -> Figure:
    """Bytes at the peak against length on logarithmic axes, a line a way; ``scores``: those of the scores alone."""
    drawn = {**several, "the scores alone": scores}
    series = [
        Series(name, sorted(found), [found[length] / 1e6 for length in sorted(found)]) for name, found in drawn.items()
    ]
    ends = ", ".join(f"{one.name} {one.values[-1]:.3g} MB" for one in series)
    return lines(
        series,
        x_title="tokens",
        y_title="MB at the peak",
        title=f"The peak at {series[0].at[-1]:,} tokens: {ends}.",
        caption=caption or "Without the inputs",
        log_x=True,
        log_y=True,
    )


def _source(function: Callable[..., object]) -> str:
    """What a function returns, as it was written; the whole of one that is more than a line."""
    try:
        text = textwrap.dedent(inspect.getsource(function)).strip()
    except (OSError, TypeError):
        return getattr(function, "__name__", "a function without source")
    returned = re.findall(r"^\s+(return .+(?:\n\s{5,}.+)*)", text, re.MULTILINE)
    return returned[0].removeprefix("return ") if len(returned) == 1 and text.startswith("def ") else text


def _place(inside: str) -> str:
    """What a function of torch's template is to the reader."""
    names = {
        "forward_block_mn": "forward",
        "bwd_dq_block_mn": "backward, the queries' gradient",
        "bwd_dkdv_block_mn": "backward, the gradients of keys and values",
    }
    return names.get(inside, inside)
