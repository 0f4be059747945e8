"""A choice of DTensor's as a reader sees it: each candidate, where it wants the inputs, and its price."""

from __future__ import annotations

import math
from collections.abc import Sequence

from compile_lab.devices.placements import placement
from compile_lab.doors import check_whole, door
from compile_lab.page.canvas import Canvas, key
from compile_lab.page.figures import Drawing
from compile_lab.page.units import with_unit, without_namespace

from .candidates import Candidate, Choosing

_SIDE, _GAP, _ROW, _PRICE = 46, 12, 74, 250
_SIGNS = {"sum": "Σ", "avg": "mean", "max": "max", "min": "min"}


@door
def choice(
    choosing: Choosing,
    shapes: Sequence[Sequence[int]],
    names: Sequence[str] = (),
    *,
    at: int = 0,
    most: int = 5,
    devices: int = 4,
    caption: str = "",
    provenance: object | None = None,
) -> Drawing:
    """Operator ``at`` of a call: its inputs as given, then the ``most`` cheapest candidates, the chosen one marked.

    Each square is a tensor, its filled part what rank 1 of ``devices`` holds. Before the arrow are the inputs where the
    candidate wants them, behind it the result; the bar is torch's price of moving the inputs there, and nothing else
    is priced. ``shapes`` are the inputs', ``names`` what they are called. Raises ValueError for an operator that is not
    there, a number of shapes that is not its inputs', or placements on more than one axis.

    >>> import torch
    >>> from chapters.sharding_strategies.candidates import candidates
    >>> from chapters.sharding_strategies.choice_view import choice
    >>> choice(candidates(torch.mm, (torch.ones(8, 4), torch.ones(4, 8)), ("S(0)", "R")), [(8, 4), (4, 8)], most=2).alt
    'aten.mm.default with inputs placed S(0), R; cheapest candidates: S(0), R gives S(0) for 0.0 µs, chosen.
    R, R gives R for 14.7 µs.'
    """
    check_whole("most", most, 1, 12)
    if not 0 <= at < len(choosing.operators):
        raise ValueError(f"at={at}: the call has {len(choosing.operators)} operators, from 0")
    one = choosing.operators[at]
    names = list(names) or [chr(ord("a") + index) for index in range(len(shapes))]
    if not len(shapes) == len(one.given) == len(names):
        raise ValueError(f"{len(shapes)} shapes and {len(names)} names for {len(one.given)} inputs of {one.operator}")
    if any(" " in word for word in one.given):
        raise ValueError("placements on several axes: the picture has one; ask candidates() with devices of one axis")
    shown = _shown(one.candidates, most)
    priciest = max((each.cost_us for each in shown if math.isfinite(each.cost_us)), default=0) or 1
    canvas = Canvas()
    canvas.words(0, 20, f"{without_namespace(one.operator)}: the inputs are", bold=True)
    _squares(canvas, 330, 8, one.given, [len(shape) for shape in shapes], names, "blue", devices)
    top = 96.0
    canvas.words(0, top, "candidate: inputs moved to", bold=True)
    canvas.words(520, top, "result", bold=True)
    canvas.words(canvas.width - _PRICE - 60, top, "price of moving, µs", bold=True)
    for row, each in enumerate(shown):
        y = top + 16 + row * _ROW
        if each.chosen:
            canvas.box(0, y, canvas.width, _ROW - 6, "sky", faint=True, title="chosen")
            canvas.words(8, y + 42, "▶", size=22)
        colours = ["orange" if word != given else "blue" for word, given in zip(each.inputs, one.given, strict=True)]
        left = _squares(canvas, 40, y + 4, each.inputs, [len(shape) for shape in shapes], names, colours, devices)
        canvas.line([(max(left + 8, 440), y + 30), (500, y + 30)], arrow=True)
        _squares(canvas, 520, y + 4, [each.output.split(" and ")[0]], [2], [""], "green", devices)
        _price(canvas, y, each, priciest)
    return Drawing(canvas.svg(), _alt(one.operator, one.given, shown), caption, None, provenance, _legend(choosing))


def _shown(candidates: Sequence[Candidate], most: int) -> list[Candidate]:
    """The cheapest ones, and the chosen one even if it is not among them."""
    first = list(candidates[:most])
    chosen = next((each for each in candidates if each.chosen), None)
    return first if chosen is None or chosen in first else [*first[:-1], chosen]


def _squares(
    canvas: Canvas,
    x: float,
    y: float,
    words: Sequence[str],
    dims: Sequence[int],
    names: Sequence[str],
    colours: str | Sequence[str],
    devices: int,
) -> float:
    for index, (word, ndim, name) in enumerate(zip(words, dims, names, strict=True)):
        colour = colours if isinstance(colours, str) else colours[index]
        said = f"{name} {word}".strip()
        canvas.box(x, y, _SIDE, _SIDE, colour, dashed=True, title=said)
        left, top, width, height, sign = _part(word, ndim, devices)
        box = x + left * _SIDE, y + top * _SIDE, width * _SIDE, height * _SIDE
        canvas.box(*box, colour, sign, title=f"{said}: what rank 1 holds", faint=bool(sign), size=16)
        canvas.words(x + _SIDE + 6, y + 29, said, code=True, size=15)
        x += _SIDE + 12 + 9.5 * len(said) + _GAP
    return x


def _part(word: str, ndim: int, devices: int) -> tuple[float, float, float, float, str]:
    if word.startswith("P("):
        return 0, 0, 1, 1, _SIGNS.get(word[2:-1], "part")
    if word.startswith("S("):
        dim = getattr(placement(word), "dim", 0)
        if dim == 0 and ndim > 1:
            return 0, 1 / devices, 1, 1 / devices, ""
        return 1 / devices, 0, 1 / devices, 1, ""
    return 0, 0, 1, 1, ""


def _price(canvas: Canvas, y: float, each: Candidate, priciest: float) -> None:
    left = canvas.width - _PRICE - 60
    if not math.isfinite(each.cost_us):
        canvas.words(left, y + 36, "cannot be moved so" if each.cost_us == math.inf else "no price")
        return
    wide = _PRICE * each.cost_us / priciest
    if wide:
        canvas.box(left, y + 20, wide, 20, "orange" if each.chosen else "grey", title=f"{each.cost_us:.1f} µs")
    canvas.words(left + wide + 6, y + 37, f"{each.cost_us:.1f}" if wide else "0, nothing moves")


def _alt(operator: str, given: Sequence[str], shown: Sequence[Candidate]) -> str:
    told = " ".join(
        f"{', '.join(each.inputs)} gives {each.output} for {each.cost_us:.1f} µs{', chosen' if each.chosen else ''}."
        for each in shown
    )
    return f"{operator} with inputs placed {', '.join(given)}; cheapest candidates: {told}"


def _legend(choosing: Choosing) -> str:
    sent = ", ".join(f"{each.count} × {each.kind}, {with_unit(each.sent_nbytes)} a rank" for each in choosing.sent)
    told = {"an input where it is": "blue", "an input that must be moved": "orange", "the result": "green"}
    return key(told) + f" &nbsp; the whole call sends {sent or 'nothing'}"
