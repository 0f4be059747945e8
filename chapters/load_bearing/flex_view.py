"""FlexAttention as a reader sees it: the blocks a mask visits, a function beside its Triton, bytes."""

import inspect
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence

from compile_lab.inductor.view import evidence
from compile_lab.page.canvas import WIDTH, Canvas, key
from compile_lab.page.figures import Drawing, Figure, Series, lines
from compile_lab.page.tables import Code, Table

from .flex import FULL, PARTIAL, BlockVisits, FlexKernels

COLOURS = {FULL: "blue", PARTIAL: "orange"}
MEANT = {
    "every pair allowed: mask not evaluated": "blue",
    "mask evaluated for each pair": "orange",
    "left out": "#8884",
}
GAP, HEAD, LEFT = 36.0, 34.0, 26.0


def blocks(several: Mapping[str, BlockVisits], caption: str = "") -> Drawing:
    """A square a mask, of up to four side by side: a small square for each block, by what becomes of it.

    Raises ValueError for no mask, or more than four.
    """
    if not 1 <= len(several) <= 4:
        raise ValueError(f"{len(several)} masks: give 1 to 4, they are drawn side by side")
    canvas = Canvas()
    side = min(300.0, (WIDTH - LEFT - GAP * (len(several) - 1)) / len(several))
    for at, (name, found) in enumerate(several.items()):
        x = LEFT + at * (side + GAP)
        canvas.words(x, 20, name, bold=True)
        _grid(canvas, x, HEAD, side, found)
        canvas.words(x, HEAD + side + 24, f"{found.visited:,} of {found.blocks:,} blocks")
    canvas.words(LEFT - 8, HEAD + 12, "q", anchor="end", size=15)
    canvas.words(LEFT, HEAD + side + 46, "keys →  (queries downwards)", size=15)
    said = "; ".join(f"{name}: {found}" for name, found in several.items())
    first = next(iter(several.values()))
    return Drawing(
        canvas.svg(),
        f"Blocks that each mask visits. {said}.",
        caption or f"Each small square is a block of {first.block} queries and {first.block} keys; counted, not timed",
        table=counts(several),
        legend=key(MEANT),
    )


def _grid(canvas: Canvas, x: float, y: float, side: float, found: BlockVisits) -> None:
    step = side / len(found.rows)
    inner = step - min(2.0, step / 6)
    for at, row in enumerate(found.rows):
        for kind, colour in ((" ", "#8884"), *COLOURS.items()):
            spans = [(x + place * step, inner) for place, letter in enumerate(row) if letter == kind]
            canvas.bars(y + at * step, inner, spans, colour)


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
    ends = [f"{one.name}: {one.values[0]:,} at {one.at[0]:,}, {one.values[-1]:,} at {one.at[-1]:,}" for one in series]
    return lines(
        series,
        x_title="tokens",
        y_title="blocks visited",
        alt=f"Blocks of a head's scores that are visited, by length. {'; '.join(ends)}.",
        caption=caption or "Blocks counted, both axes logarithmic",
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
    ends = "; ".join(f"{one.name}: {one.values[-1]:.3g} MB at {one.at[-1]:,} tokens" for one in series)
    return lines(
        series,
        x_title="tokens",
        y_title="MB at the peak",
        alt=f"Memory at the peak by length. {ends}.",
        caption=caption or "Without the inputs; both axes logarithmic",
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
    names = {"forward_block_mn": "forward", "bwd_dq_block_mn": "backward, dQ", "bwd_dkdv_block_mn": "backward, dK dV"}
    return names.get(inside, inside)
