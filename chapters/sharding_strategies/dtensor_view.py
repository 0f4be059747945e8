"""DTensor as a reader sees it: who holds what before and after a call, what was sent, what came of it."""

from __future__ import annotations

from collections.abc import Sequence

from compile_lab.devices.dtensor import FREE, HANGS, PAID, REFUSED, UNCLEAR, WRONG, Ruling
from compile_lab.devices.placements import placement
from compile_lab.doors import check_whole, door
from compile_lab.page.canvas import Canvas, key
from compile_lab.page.figures import Drawing
from compile_lab.page.units import with_unit

MOST_DRAWN = 4
COLOURS = {FREE: "green", PAID: "orange", REFUSED: "grey", WRONG: "vermillion", HANGS: "purple", UNCLEAR: "sky"}
SAID = {
    FREE: "right, and nothing is sent",
    PAID: "right, and paid for",
    REFUSED: "refused",
    WRONG: "wrong, without an error",
    HANGS: "the ranks hang or crash",
    UNCLEAR: "no verdict",
}
_SIGNS = {"sum": "Σ", "avg": "mean", "max": "max", "min": "min"}
_SIDE, _GAP, _LEFT = 84, 14, 150


@door
def who_holds_what(
    call: str,
    shapes: Sequence[Sequence[int]],
    layout: Sequence[str],
    ruling: Ruling,
    ranks: int = 2,
    caption: str = "",
    provenance: object | None = None,
) -> Drawing:
    """A call on a mesh: each rank's part of every input, what is sent, and each rank's part of the results.

    ``call`` names it, ``shapes`` and ``layout`` are the input tensors' in order, ``ruling`` is what was found. A full
    square is the whole tensor; of a partial value each rank has all places, and a number that is not the value yet.
    Raises ValueError for more than four ranks or three inputs, and for a layout that does not fit the shapes.

    >>> from chapters.sharding_strategies.dtensor_view import who_holds_what
    >>> from compile_lab.devices.dtensor import Ruling
    >>> who_holds_what("x.sum()", [(8, 4)], ["S(0)"], Ruling("free", out=("P(sum)",))).alt
    'x.sum() of inputs placed S(0) on 2 ranks: free. The result is labelled P(sum).'
    """
    check_whole("ranks", ranks, 2, MOST_DRAWN)
    if len(shapes) != len(layout) or not 1 <= len(shapes) <= 3:
        raise ValueError(f"{len(shapes)} shapes and {len(layout)} placements: give one to three inputs, each its own")
    canvas = Canvas()
    each = (canvas.width - _LEFT) / ranks
    for rank in range(ranks):
        canvas.words(_LEFT + each * (rank + 0.5), 18, f"rank {rank}", anchor="middle", bold=True)
    bottom = _row(canvas, 30, "before", shapes, layout, ranks, "blue")
    colour = COLOURS.get(ruling.kind, "grey")
    canvas.words(0, bottom + 46, call, code=True, size=20)
    told = SAID.get(ruling.kind, ruling.kind) + (f": its {ruling.what}" if ruling.what else "")
    canvas.box(_LEFT + 240, bottom + 20, canvas.width - _LEFT - 240, 40, colour, told + _sent(ruling))
    if ruling.detail:
        told = ruling.detail if len(ruling.detail) <= 78 else ruling.detail[:77] + "…"
        canvas.words(canvas.width, bottom + 84, told, anchor="end", size=16)
    if ruling.out:
        canvas.line([(75, bottom + 60), (75, bottom + 96)], arrow=True)
        words = [each if each[0] in "RSP" else "R" for each in ruling.out[:3]]
        sign = "≠" if ruling.kind == WRONG else ""
        _row(canvas, bottom + 104, "after", [(2, 2)] * len(words), words, ranks, colour, sign)
    return Drawing(canvas.svg(), _alt(call, layout, ruling, ranks), caption, None, provenance, _legend(ruling))


def _row(
    canvas: Canvas,
    y: float,
    name: str,
    shapes: Sequence[Sequence[int]],
    words: Sequence[str],
    ranks: int,
    colour: str,
    instead: str = "",
) -> float:
    """One row of squares, a column for each rank; where it ends. `instead` is a sign for what is wrong."""
    canvas.words(0, y + _SIDE / 2, name, bold=True)
    for index, word in enumerate(words):
        canvas.words(0, y + _SIDE / 2 + 22 * (index + 1), word, code=True, size=16)
    each = (canvas.width - _LEFT) / ranks
    wide = len(words) * (_SIDE + _GAP) - _GAP
    for rank in range(ranks):
        for index, (shape, word) in enumerate(zip(shapes, words, strict=True)):
            x = _LEFT + each * (rank + 0.5) - wide / 2 + index * (_SIDE + _GAP)
            canvas.box(x, y, _SIDE, _SIDE, colour, dashed=True, title=f"{word} of {tuple(shape)}, rank {rank}")
            left, top, width, height, sign = _part(word, len(shape), rank, ranks)
            sign = instead or sign
            title = f"rank {rank} holds {word}"
            box = x + left * _SIDE, y + top * _SIDE, width * _SIDE, height * _SIDE
            canvas.box(*box, colour, sign, title=title, faint=bool(sign))
    return y + _SIDE


def _part(word: str, ndim: int, rank: int, ranks: int) -> tuple[float, float, float, float, str]:
    """Left, top, width and height in shares of the square, and a sign for what is no plain part."""
    if word.startswith("P("):
        return 0, 0, 1, 1, _SIGNS.get(word[2:-1], "part")
    if word.startswith("S("):
        dim = getattr(placement(word), "dim", 0)
        if dim == 0 and ndim > 1:
            return 0, rank / ranks, 1, 1 / ranks, ""
        return rank / ranks, 0, 1 / ranks, 1, ""
    return 0, 0, 1, 1, ""


def _sent(ruling: Ruling) -> str:
    if ruling.kind in (FREE, REFUSED, HANGS):
        return ""
    if not ruling.sent:
        return "; nothing is sent"
    kinds = ", ".join(f"{each.count} × {each.kind}" for each in ruling.sent)
    return f"; {kinds}, {with_unit(ruling.sent_nbytes)} a rank"


def _alt(call: str, layout: Sequence[str], ruling: Ruling, ranks: int) -> str:
    after = f" The result is labelled {', '.join(ruling.out)}." if ruling.out else ""
    return f"{call} of inputs placed {', '.join(layout)} on {ranks} ranks: {ruling}.{after}"


def _legend(ruling: Ruling) -> str:
    told = SAID.get(ruling.kind, ruling.kind)
    return key({"an input": "blue", f"the result: {told}": COLOURS.get(ruling.kind, "grey")})
