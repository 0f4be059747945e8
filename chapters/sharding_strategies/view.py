"""DTensor drawn: what each rank holds, before and after a call, what a choice costs, which line of a model pays."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import Tensor

from compile_lab.devices.dtensor import FREE, HANGS, PAID, REFUSED, UNCLEAR, WRONG, Ruling
from compile_lab.devices.placements import parts, whole
from compile_lab.doors import check_whole, door
from compile_lab.page import marks
from compile_lab.page.figures import Drawing
from compile_lab.page.marks import Axis, Cell, Row
from compile_lab.page.units import with_unit, without_namespace

from .candidates import Candidate, Choosing
from .redistributions import Redistribution

COLOURS = {FREE: "green", PAID: "orange", REFUSED: "grey", HANGS: "purple", UNCLEAR: "sky", WRONG: "vermillion"}
KIND_TEXT = {
    FREE: "right, and nothing is sent",
    PAID: "right, and paid for",
    REFUSED: "refused",
    HANGS: "the ranks hang or crash",
    UNCLEAR: "no verdict",
    WRONG: "wrong, without an error",
}
_SIGNS = {"sum": "Σ", "avg": "mean", "max": "max", "min": "min"}
_MOST_CELLS = 16


@door
def held_by(x: Tensor, words: Sequence[str]) -> Drawing:
    """What each of two ranks holds of the matrix ``x`` under each placement, row by row, and what the parts stand for.

    Raises ValueError for what is no matrix of at most 16 numbers, for more than four placements, and for a
    placement that does not fit.

    >>> import torch
    >>> from chapters.sharding_strategies.view import held_by
    >>> held_by(torch.tensor([[1, 2], [3, 4]]), ["S(0)", "P(sum)"]).table
            rank 0   rank 1       whole
    ──────  ───────  ───────────  ───────
    S(0)    1 2 –    – 3 4        1 2 3 4
    P(sum)  2 4 6 8  -1 -2 -3 -4  1 2 3 4
    """
    if x.ndim != 2 or not 1 <= x.numel() <= _MOST_CELLS:
        raise ValueError(f"x has shape {tuple(x.shape)}: give a matrix of at most {_MOST_CELLS} numbers")
    if not 1 <= len(words) <= 4:
        raise ValueError(f"{len(words)} placements: give one to four")
    grids = {}
    for word in words:
        held, start, grid = parts(x, word, 2), 0, []
        for mine in held:
            rows = [" ".join(f"{value:g}" for value in row) for row in mine.tolist()]
            before = start if word == "S(0)" else 0
            start += len(rows)
            series = "a part of a sum" if word.startswith("P(") else "held"
            after = len(x) - before - len(rows)
            grid.append([Cell()] * before + [Cell(row, series) for row in rows] + [Cell()] * after)
        value = whole(held, word).tolist()
        grids[word] = [*grid, [Cell(" ".join(f"{one:g}" for one in row), "the value") for row in value]]
    return marks.cells(
        grids,
        rows=["rank 0", "rank 1", "whole"],
        title=f"A matrix of {x.shape[0]} × {x.shape[1]} on 2 ranks, under {len(words)} placements.",
        caption="Each field is a row of the matrix.",
        colours={"held": "blue", "a part of a sum": "orange", "the value": "green"},
    )


@door
def choice(choosing: Choosing, names: Sequence[str] = (), *, at: int = 0, most: int = 5, caption: str = "") -> Drawing:
    """Operator ``at`` of a call: the price of the ``most`` cheapest candidates, and which inputs each would move.

    The price is torch's, of moving the inputs there, and nothing else is priced. ``names`` are the inputs'. Raises
    ValueError for an operator that is not there, and for a number of names that is not its inputs'.

    >>> import torch
    >>> from chapters.sharding_strategies.candidates import candidates
    >>> from chapters.sharding_strategies.view import choice
    >>> choice(candidates(torch.mm, (torch.ones(8, 4), torch.ones(4, 8)), ("S(0)", "R")), most=2).title
    'mm of a S(0), b R: DTensor moves nothing, for 0 µs.'
    """
    check_whole("most", most, 1, 12)
    if not 0 <= at < len(choosing.operators):
        raise ValueError(f"at={at}: the call has {len(choosing.operators)} operators, from 0")
    one = choosing.operators[at]
    names = list(names) or [chr(ord("a") + index) for index in range(len(one.given))]
    if len(names) != len(one.given):
        raise ValueError(f"{len(names)} names for {len(one.given)} inputs of {one.operator}")
    rows, took = [], ""
    for each in _shown(one.candidates, most):
        moved = [n for n, word, given in zip(names, each.inputs, one.given, strict=True) if word != given]
        moves, price = f"moves {', '.join(moved) or 'nothing'}", each.cost_us
        told = f"{marks.short(price)} µs, {moves}" if math.isfinite(price) else "the inputs cannot be moved there"
        took = f"{moves}, for {price:.3g} µs" if each.chosen else took
        parts_ = {"chosen" if each.chosen else "not chosen": price} if math.isfinite(price) else {}
        rows.append(Row(f"{', '.join(each.inputs)} → {each.output}", parts_, told, strong=each.chosen, code=True))
    given = ", ".join(f"{name} {word}" for name, word in zip(names, one.given, strict=True))
    sent = ", ".join(f"{each.count} × {each.kind}, {with_unit(each.sent_nbytes)} a rank" for each in choosing.sent)
    return marks.segments(
        rows,
        Axis("price of moving", "µs"),
        title=f"{without_namespace(one.operator).partition('.')[0]} of {given}: DTensor {took}.",
        caption=f"{caption} The whole call sends {sent or 'nothing'}.".strip(),
        colours={"chosen": "orange", "not chosen": "grey"},
    )


def _shown(candidates: Sequence[Candidate], most: int) -> list[Candidate]:
    """The cheapest ones, and the chosen one even if it is not among them."""
    first = list(candidates[:most])
    chosen = next((each for each in candidates if each.chosen), None)
    return first if chosen is None or chosen in first else [*first[:-1], chosen]


@door
def who_holds_what(call: str, layout: Sequence[str], ruling: Ruling) -> Drawing:
    """A call on a mesh of two: each rank's part of every input, what is sent, and each rank's part of the results.

    ``layout`` are the placements of the inputs in order, ``ruling`` is what was found. A field is a part along the
    dimension that is split; of a partial value each rank has all parts, and a number that is not the value yet. Raises
    ValueError for more than three inputs.

    >>> from chapters.sharding_strategies.view import who_holds_what
    >>> from compile_lab.devices.dtensor import Ruling
    >>> who_holds_what("x.sum()", ["S(0)"], Ruling("free", out=("P(sum)",))).title
    'x.sum() of S(0): right, and nothing is sent.'
    """
    check_whole("inputs", len(layout), 1, 3)
    outcome = KIND_TEXT.get(ruling.kind, ruling.kind)
    grids = {f"input {at}: {word}": _held(word, "an input") for at, word in enumerate(layout, 1)}
    for at, word in enumerate(ruling.out[:3], 1):
        sign = "≠" if ruling.kind == WRONG else ""
        grids[f"result {at}: {word}"] = _held(word, f"the result: {outcome}", sign)
    told = outcome + (f": its {ruling.what}" if ruling.what else "") + _sent(ruling)
    return marks.cells(
        grids,
        rows=[f"rank {rank}" for rank in range(2)],
        title=f"{call} of {', '.join(layout)}: {told}.",
        caption=ruling.detail if len(ruling.detail) <= 78 else ruling.detail[:77] + "…",
        colours={"an input": "blue", f"the result: {outcome}": COLOURS.get(ruling.kind, "grey")},
    )


def _held(word: str, series: str, instead: str = "") -> list[list[Cell]]:
    """A row for each rank, a field for each part of the value; `instead` is a sign for what is wrong."""
    sign = instead or (_SIGNS.get(word[2:-1], "part") if word.startswith("P(") else "")
    full = [Cell(sign or str(at), series, pale=bool(sign)) for at in range(2)]
    split = word.startswith("S(")
    return [[part if at == rank or not split else Cell() for at, part in enumerate(full)] for rank in range(2)]


def _sent(ruling: Ruling) -> str:
    if ruling.kind in (FREE, REFUSED, HANGS):
        return ""
    kinds = ", ".join(f"{each.count} × {each.kind}" for each in ruling.sent)
    return f"; {kinds}, {with_unit(ruling.sent_nbytes)} a rank" if kinds else "; nothing is sent"


@door
def by_line(found: Sequence[Redistribution], caption: str = "") -> Drawing:
    """The model's lines at which a rank sends, and its bytes: forward, and the same line's backward.

    Raises ValueError if nothing is sent.

    >>> from chapters.sharding_strategies.redistributions import Redistribution
    >>> from chapters.sharding_strategies.view import by_line
    >>> from compile_lab.source import Line
    >>> by_line([Redistribution("_softmax", 0, "S(0)", "R", 64, ("all_gather",), False, Line("model.py", 7))]).title
    'A rank sends 64 bytes at 1 lines of the model.'
    """
    paid = [each for each in found if each.sent_nbytes]
    if not paid:
        raise ValueError("nothing is sent implicitly, so there is nothing to draw; say so in words")
    rows = []
    for place, text in dict.fromkeys((each.place, each.text) for each in paid):
        here = [each for each in paid if (each.place, each.text) == (place, text)]
        sums = {
            "forward": sum(each.sent_nbytes for each in here if not each.backward) / 1e3,
            "backward": sum(each.sent_nbytes for each in here if each.backward) / 1e3,
        }
        rows.append(Row(f"{place} {text}", sums, with_unit(sum(each.sent_nbytes for each in here)), code=True))
    return marks.segments(
        rows,
        Axis("a rank sends", "kB"),
        title=f"A rank sends {with_unit(sum(each.sent_nbytes for each in paid))} at {len(rows)} lines of the model.",
        caption=caption,
        colours={"forward": "blue", "backward": "sky"},
    )
