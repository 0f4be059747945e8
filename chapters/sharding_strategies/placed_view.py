"""A tensor on a mesh as a reader sees it: the whole, and at each rank's place the part that this rank holds."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from compile_lab.doors import door
from compile_lab.page.canvas import Canvas, key
from compile_lab.page.figures import Drawing

from .placed import Placed, RankPart

_COLOURS = ("blue", "orange", "green", "purple", "sky", "vermillion", "yellow", "grey")
_CELL, _GAP, _HEAD = 34, 26, 80
MOST_CELLS = 12


@door
def on_meshes(
    several: Sequence[Placed], names: Sequence[str] = (), caption: str = "", provenance: object | None = None
) -> Drawing:
    """Several placements of tensors, one under the other, each with a name.

    A filled cell is an element that a rank holds, with its number as it holds it; faint ones are a part of each number,
    which is not the number yet. Raises ValueError for a tensor of more than two dimensions or too large to draw.

    >>> import torch
    >>> from chapters.sharding_strategies import placed, placed_view
    >>> copies = tuple(placed.RankPart((rank,), torch.arange(2)) for rank in range(2))
    >>> placed_view.on_meshes([placed.Placed((2,), ("R",), (2,), ("rank",), copies, torch.arange(2))], ["copies"]).alt
    'A tensor of shape (2,) on a mesh of 2 ranks, R along rank: a rank holds (2,).'
    """
    names = list(names) or [" ".join(each.words) for each in several]
    if len(names) != len(several) or not several:
        raise ValueError(f"{len(names)} names for {len(several)} placements: give each its own")
    canvas = Canvas()
    left = top = bottom = 0.0
    for each, name in zip(several, names, strict=True):
        wide = _wide(each)
        if left and left + wide > canvas.width:  # what fits stands side by side
            left, top = 0.0, bottom + 30
        bottom = max(bottom, _one(canvas, left, top, each, name))
        left += max(wide + 10, canvas.width / 2)
    alt = " ".join(_said(each) for each in several)
    legend = {"the whole tensor": "grey"} | {f"rank {rank}": _COLOURS[rank] for rank in range(_most_ranks(several))}
    return Drawing(canvas.svg(), alt, caption, None, provenance, key(legend))


def _wide(found: Placed) -> float:
    """How wide the picture of one placement is, with full cells."""
    return (found.mesh[-1] + 1) * _matrix(found.shape)[1] * _CELL + (found.mesh[-1] + 1) * _GAP


def _one(canvas: Canvas, begin: float, top: float, found: Placed, name: str) -> float:
    rows, columns = _matrix(found.shape)
    down = found.mesh[0] if len(found.mesh) == 2 else 1
    cell = min(_CELL, _CELL * (canvas.width - 90) / _wide(found))
    canvas.words(begin, top + 20, name, bold=True)
    places = [f"{axis}: {word}" for axis, word in zip(found.axes, found.words, strict=True)]
    canvas.words(begin, top + 44, ",  ".join(places), code=True, size=16)
    body = top + _HEAD
    canvas.words(begin, body - 8, "whole", size=15)
    _grid(canvas, begin, body, cell, found, torch.ones(rows, columns, dtype=torch.bool), "grey", found.whole, False)
    left = begin + columns * cell + 2 * _GAP
    for rank, part in enumerate(found.parts):
        row, column = part.at if len(part.at) == 2 else (0, part.at[0])
        x = left + column * (columns * cell + _GAP)
        y = body + row * (rows * cell + 34)
        where = ", ".join(f"{axis} {at}" for axis, at in zip(found.axes, part.at, strict=True))
        canvas.words(x, y - 8, f"rank {rank}" if len(part.at) == 1 else f"{rank} ({where})", size=15)
        _grid(canvas, x, y, cell, found, found.cells(part).reshape(rows, columns), _COLOURS[rank], *_shown(found, part))
    return body + down * (rows * cell + 34) - 20


def _shown(found: Placed, part: RankPart) -> tuple[torch.Tensor, bool]:
    partial = any(word.startswith("P(") for word in found.words)
    return (part.local if partial else found.whole), partial


def _grid(
    canvas: Canvas,
    x: float,
    y: float,
    cell: float,
    found: Placed,
    held: torch.Tensor,
    colour: str,
    numbers: torch.Tensor,
    faint: bool,
) -> None:
    rows, columns = _matrix(found.shape)
    numbers = numbers.reshape(rows, columns)
    for row in range(rows):
        for column in range(columns):
            at = x + column * cell + 1, y + row * cell + 1, cell - 2, cell - 2
            number = f"{float(numbers[row, column]):g}"
            if held[row, column]:
                canvas.box(*at, colour, number, title=f"[{row}, {column}] is {number}", faint=faint, size=13)
            else:
                canvas.box(*at, "grey", dashed=True, title=f"[{row}, {column}] is elsewhere")


def _matrix(shape: tuple[int, ...]) -> tuple[int, int]:
    if not 1 <= len(shape) <= 2 or max(shape) > MOST_CELLS or 0 in shape:
        raise ValueError(
            f"a tensor of shape {shape}: one or two dimensions of at most {MOST_CELLS} can be drawn; take a smaller one"
        )
    return (1, shape[0]) if len(shape) == 1 else (shape[0], shape[1])


def _most_ranks(several: Sequence[Placed]) -> int:
    return max(len(each.parts) for each in several)


def _said(found: Placed) -> str:
    places = ", ".join(f"{word} along {axis}" for word, axis in zip(found.words, found.axes, strict=True))
    shapes = dict.fromkeys(str(tuple(part.local.shape)) for part in found.parts)
    mesh = " × ".join(map(str, found.mesh))
    return f"A tensor of shape {found.shape} on a mesh of {mesh} ranks, {places}: a rank holds {' or '.join(shapes)}."
