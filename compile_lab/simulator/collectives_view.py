"""How a ring adds up, and why a pair of matmuls needs one sum: two pictures."""

from collections.abc import Sequence
from dataclasses import dataclass

from ..doors import check_whole
from ..page.canvas import Canvas, key
from ..page.figures import Drawing

Chunks = tuple[tuple[frozenset[int], ...], ...]
"""For each rank and each chunk, whose contributions it has added up."""


@dataclass(frozen=True)
class RingStep:
    """What all ranks have after a step of a ring, and which chunk each sent to its neighbour in it."""

    chunks: Chunks
    sent: tuple[int, ...]


def ring(ranks: int) -> list[RingStep]:
    """An all-reduce on a ring, carried out: a reduce-scatter in n − 1 steps, then an all-gather in as many.

    In a step every rank sends one chunk, an n-th of the tensor, to the next rank: first that rank adds its own to it,
    later it replaces its own by the whole sum. ValueError for fewer than two ranks.
    """
    check_whole("ranks", ranks, 2)
    have = [[frozenset([rank])] * ranks for rank in range(ranks)]
    steps = [RingStep(tuple(map(tuple, have)), ())]
    for step in range(2 * (ranks - 1)):
        sent = tuple((rank - step) % ranks for rank in range(ranks))
        arriving = [have[rank][chunk] for rank, chunk in enumerate(sent)]
        for rank, chunk in enumerate(sent):
            to = (rank + 1) % ranks
            have[to][chunk] = arriving[rank] | have[to][chunk]
        steps.append(RingStep(tuple(map(tuple, have)), sent))
    return steps


def ring_all_reduce(ranks: int = 4) -> Drawing:
    """Every step of ``ring``: each rank's chunks, with the number of ranks whose values are in it."""
    steps, canvas = ring(ranks), Canvas()
    left, high = 86, 50
    pitch = (canvas.width - left) / len(steps)
    side = min(30.0, (pitch - 12) / ranks)
    for number, step in enumerate(steps):
        x = left + pitch * number
        canvas.words(x, 52, "start" if not number else f"step {number}", size=16)
        for rank, chunks in enumerate(step.chunks):
            for chunk, added in enumerate(chunks):
                came = step.sent and step.sent[rank - 1] == chunk
                whole = len(added) == ranks
                colour = "orange" if came and not whole else "blue" if whole else "grey"
                y = 64 + high * rank
                canvas.box(
                    x + side * chunk, y, side - 2, 34, colour, str(len(added)), faint=whole and not came, size=16
                )
    for rank in range(ranks):
        canvas.words(0, 87 + high * rank, f"rank {rank}")
    half = left + pitch * ranks
    canvas.line([(half - 8, 6), (half - 8, 64 + high * ranks)], dashed=True)
    canvas.words(left + pitch, 22, "reduce-scatter", bold=True)
    canvas.words(half, 22, "all-gather", bold=True)
    return Drawing(
        canvas.svg(),
        f"{ranks} ranks, each with {ranks} chunks of a tensor. In {ranks - 1} steps of a reduce-scatter sums travel "
        f"round the ring, until each rank has one chunk with all {ranks} addends. In {ranks - 1} of an all-gather the "
        "whole chunks travel round. A rank sends one chunk in each step, to the next rank.",
        f"In each step each rank sends one chunk to the rank below (the last to the first): {2 * (ranks - 1)} chunks "
        f"of 1/{ranks} each, 2 · {ranks - 1}/{ranks} of the tensor. The number: how many ranks' values are added up.",
        legend=key(
            {
                "just come, a partial sum": "orange",
                "the whole sum, pale if it was there before": "blue",
                "not whole": "grey",
            }
        ),
    )


def pair(names: Sequence[str] = ("up", "down")) -> Drawing:
    """A pair of matmuls on two devices: the first split by columns, the second by rows; one sum at the end."""
    canvas, unit, tokens = Canvas(), 28.0, 50.0
    wide, colours = 4 * unit, ("blue", "orange")
    for device, colour in enumerate(colours):
        top = 34 + 134 * device
        middle = top + wide / 2
        canvas.words(0, middle + 6, f"device {device}", bold=True)
        x = 104.0
        canvas.box(x, middle - tokens / 2, unit, tokens, "grey", "x", faint=True)
        canvas.words(x + unit + 9, middle + 6, "·")
        x += unit + 24
        canvas.box(x, middle - unit / 2, wide, unit, "grey", faint=True)
        canvas.box(x + wide / 2 * device, middle - unit / 2, wide / 2, unit, colour, names[0])
        x = _sign(canvas, x + wide, middle, "=")
        canvas.box(x, middle - tokens / 2, wide, tokens, "grey", faint=True)
        canvas.box(x + wide / 2 * device, middle - tokens / 2, wide / 2, tokens, colour, "h")
        x = _sign(canvas, x + wide, middle, "·")
        canvas.box(x, top, unit, wide, "grey", faint=True)
        canvas.box(x, top + wide / 2 * device, unit, wide / 2, colour, title=names[1])
        canvas.words(x + unit / 2, top - 8 if device == 0 else top + wide + 20, names[1], anchor="middle")
        x = _sign(canvas, x + unit, middle, "=")
        canvas.box(x, middle - tokens / 2, unit, tokens, colour, "+", faint=True, title="a partial sum")
        canvas.line([(x + unit + 6, middle), (x + unit + 66, 157 - 14 + 28 * device)], "purple", thick=3, arrow=True)
        end = x + unit + 76
    canvas.words(end - 4, 108, "all-reduce", colour="ink")
    canvas.box(end, 157 - tokens / 2, unit, tokens, "green", "y")
    canvas.words(end + unit + 14, 163, "whole, on both")
    return Drawing(
        canvas.svg(),
        f"Each of two devices has x whole, half of the columns of {names[0]} and half of the rows of {names[1]}. Of h "
        "it computes its half, with nothing sent, and of y a partial sum as large as y; an all-reduce adds the two up.",
        "Sizes to scale: h is four times as wide as x. GELU works number by number, so each half of h is final; "
        "attention's pair is the same, with heads in place of columns.",
        legend=key({"of device 0": "blue", "of device 1": "orange", "the sum": "green", "sent": "purple"}),
    )


def _sign(canvas: Canvas, x: float, y: float, sign: str) -> float:
    canvas.words(x + 9, y + 6, sign)
    return x + 28
