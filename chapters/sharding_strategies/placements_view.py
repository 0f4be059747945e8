"""One tensor under several placements: the numbers that each rank holds, drawn as they lie."""

from collections.abc import Sequence

from torch import Tensor

from compile_lab.devices.placements import parts, whole
from compile_lab.doors import check_whole, door
from compile_lab.page.canvas import Canvas
from compile_lab.page.figures import Drawing

_CELL, _LEFT, _TOP, _BAND = 34, 120, 34, 40
_MOST_CELLS = 16


@door
def held_by(x: Tensor, words: Sequence[str], ranks: int = 2, caption: str = "") -> Drawing:
    """A column for each placement of the matrix ``x``, a band for each rank: what that rank holds, and at last the sum.

    The bottom band is what the parts stand for, put together by the label. Raises ValueError for what is no matrix of
    at most 16 numbers, for more than four ranks or placements, and for a placement that does not fit.

    >>> import torch
    >>> from chapters.sharding_strategies.placements_view import held_by
    >>> held_by(torch.tensor([[1, 2], [3, 4]]), ["S(0)", "P(sum)"]).alt
    'A 2 by 2 matrix on 2 ranks. S(0): rank 0 holds [[1, 2]]; rank 1 holds [[3, 4]] P(sum): rank 0 holds [[2,
    4], [6, 8]]; rank 1 holds [[-1, -2], [-3, -4]]'
    """
    check_whole("ranks", ranks, 2, 4)
    if x.ndim != 2 or not 1 <= x.numel() <= _MOST_CELLS:
        raise ValueError(f"x has shape {tuple(x.shape)}: give a matrix of at most {_MOST_CELLS} numbers")
    if not 1 <= len(words) <= 4:
        raise ValueError(f"{len(words)} placements: give one to four")
    rows, columns = x.shape
    canvas = Canvas()
    wide = (canvas.width - _LEFT) / len(words)
    band = rows * _CELL + _BAND
    for rank in range(ranks):
        canvas.words(0, _TOP + rank * band + rows * _CELL / 2 + 6, f"rank {rank}", bold=True)
    canvas.words(0, _TOP + ranks * band + rows * _CELL / 2 + 6, "stands for", bold=True)
    for at, word in enumerate(words):
        left = _LEFT + (at + 0.5) * wide - columns * _CELL / 2
        canvas.words(_LEFT + (at + 0.5) * wide, 20, word, anchor="middle", code=True)
        held = parts(x, word, ranks)
        start = 0
        for rank, mine in enumerate(held):
            top = _TOP + rank * band
            down, across = (start, 0) if word == "S(0)" else (0, start) if word == "S(1)" else (0, 0)
            start += mine.shape[0] if word == "S(0)" else mine.shape[1] if word == "S(1)" else 0
            canvas.box(left, top, columns * _CELL, rows * _CELL, "grey", dashed=True, title=f"{word}, rank {rank}")
            colour = "orange" if word.startswith("P(") else "blue"
            _numbers(canvas, left + across * _CELL, top + down * _CELL, mine, colour)
        _numbers(canvas, left, _TOP + ranks * band, whole(held, word), "green")
    told = " ".join(
        f"{word}: " + "; ".join(f"rank {rank} holds {mine.tolist()}" for rank, mine in enumerate(parts(x, word, ranks)))
        for word in words
    )
    return Drawing(canvas.svg(), f"A {rows} by {columns} matrix on {ranks} ranks. {told}", caption)


def _numbers(canvas: Canvas, x: float, y: float, held: Tensor, colour: str) -> None:
    for row, line in enumerate(held.tolist()):
        for column, value in enumerate(line):
            box = x + column * _CELL + 1, y + row * _CELL + 1, _CELL - 2, _CELL - 2
            canvas.box(*box, colour, f"{value:g}", size=15)
