"""Implicit redistributions as a reader sees them: which line of the model pays, forward and backward."""

from __future__ import annotations

from collections.abc import Sequence

from compile_lab.doors import door
from compile_lab.page.canvas import Canvas, key
from compile_lab.page.figures import Drawing
from compile_lab.page.units import with_unit

from .redistributions import Redistribution

_ROW, _LEFT, _CODE = 58, 600, 58


@door
def by_line(found: Sequence[Redistribution], caption: str = "", provenance: object | None = None) -> Drawing:
    """The model's lines at which a rank sends, each with a bar of its bytes: forward, and the same line's backward.

    Raises ValueError if nothing is sent.

    >>> from chapters.sharding_strategies.redistributions import Redistribution
    >>> from chapters.sharding_strategies.redistributions_view import by_line
    >>> from compile_lab.source import Line
    >>> by_line([Redistribution("_softmax", 0, "S(0)", "R", 64, ("all_gather",), False, Line("model.py", 7))]).alt
    'Lines at which DTensor redistributes a tensor implicitly. model.py, line 7: forward 64 bytes, backward 0.'
    """
    paid = [each for each in found if each.sent_nbytes]
    if not paid:
        raise ValueError("nothing is sent implicitly, so there is nothing to draw; say so in words")
    lines = sorted({(each.place, each.text) for each in paid}, key=lambda line: _first(paid, line[0]))
    bytes_of = {
        (place, way): sum(each.sent_nbytes for each in paid if each.place == place and each.backward == way)
        for place, _ in lines
        for way in (False, True)
    }
    most = max(bytes_of.values())
    canvas = Canvas()
    wide = canvas.width - _LEFT - 110
    for row, (place, text) in enumerate(lines):
        y = row * _ROW + 8
        canvas.words(0, y + 16, place, bold=True, size=16)
        canvas.words(0, y + 38, text if len(text) <= _CODE else text[: _CODE - 1] + "…", code=True, size=15)
        for way, colour in ((False, "blue"), (True, "orange")):
            sent = bytes_of[place, way]
            top = y + (22 if way else 0)
            name = "backward" if way else "forward"
            if sent:
                title = f"{place}, {name}: a rank sends {sent:,} bytes"
                canvas.box(_LEFT, top, max(2, wide * sent / most), 18, colour, title=title)
            canvas.words(_LEFT + wide * sent / most + 8, top + 15, with_unit(sent) if sent else "0", size=15)
    alt = "Lines at which DTensor redistributes a tensor implicitly. " + " ".join(
        f"{place}: forward {bytes_of[place, False]:,} bytes, backward {bytes_of[place, True]:,}." for place, _ in lines
    )
    legend = key({"sent in the forward": "blue", "sent in the backward": "orange"})
    return Drawing(canvas.svg(), alt, caption, None, provenance, legend)


def _first(paid: Sequence[Redistribution], place: str) -> int:
    return next(at for at, each in enumerate(paid) if each.place == place)
