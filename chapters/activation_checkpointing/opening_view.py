"""The picture that opens the chapter on checkpointing: a stack of blocks whose activations are kept, or made again."""

from __future__ import annotations

from collections.abc import Mapping

from compile_lab.checkpointing.cost import Cost
from compile_lab.doors import check_amount, check_whole, door
from compile_lab.page.canvas import Canvas, key
from compile_lab.page.figures import Drawing
from compile_lab.page.tables import Table
from compile_lab.page.units import with_unit

LEFT, STACK, HIGH, ROW = 0, 590, 66, 112
"""In units of the drawing: where the blocks begin, how wide they are together, the height of a block's activations."""
KEPT, AGAIN = "blue", "orange"
ROWS = {
    "none": "Everything is kept",
    "every layer": "Each block keeps its input, and runs again",
    "segments of 24": "One input is kept for all; all run again",
}
"""The strategies that are drawn, by their names in the recording."""


@door
def kept_or_again(costs: Mapping[str, Cost], layers: int, input_nbytes: float, provenance: object = None) -> Drawing:
    """What each block holds at the peak under three strategies, to one scale, and the arithmetic that each adds.

    Blue is kept by the forward, orange is made again by the backward, all of one segment at once. ``input_nbytes`` are
    the bytes of a block's input. Raises ValueError for sizes that are none, KeyError for a strategy that was not run.

    >>> from chapters.activation_checkpointing.experiments.checkpointing import recorded
    >>> from chapters.activation_checkpointing.opening_view import kept_or_again
    >>> from compile_lab import recordings
    >>> kept_or_again(recorded(recordings.load("checkpointing").result), layers=24, input_nbytes=25e6).alt
    "24 blocks drawn to scale, three times. All kept: 15.5 GB at the peak. With only each block's input kept,
    2.61 GB, for 23 % more arithmetic. With one input kept for all, the backward begins by recomputing
    everything: 15.4 GB, for 32 % more arithmetic."
    """
    check_whole("layers", layers), check_amount("input_nbytes", input_nbytes)
    plain = costs["none"]
    block_nbytes = plain.held_nbytes / layers
    canvas, wide, scale = Canvas(), STACK / layers, HIGH / block_nbytes
    x, longest = LEFT + STACK + 40, 1000 - (LEFT + STACK + 40)
    most = max(costs[name].peak_nbytes for name in ROWS)
    for row, (name, words) in enumerate(ROWS.items()):
        cost, top = costs[name], 24 + row * (ROW + 34)
        every, ground = cost.strategy.every, top + 16 + HIGH
        canvas.words(LEFT, top, words, bold=True)
        for block in range(layers):
            left, thin = LEFT + block * wide, input_nbytes * scale
            if not every:
                canvas.box(left, ground - HIGH, wide - 2, HIGH, KEPT)
                continue
            if block >= layers - every:  # the backward begins with the last segment
                canvas.box(left, ground - HIGH, wide - 2, HIGH - (thin if block % every == 0 else 0), AGAIN)
            if block % every == 0:
                canvas.box(left, ground - thin, wide - 2, thin, KEPT)
        canvas.line([(LEFT, ground + 2), (LEFT + STACK - 2, ground + 2)], thick=1.5)
        canvas.box(x, top + 14, longest * cost.held_nbytes / most, 26, KEPT)
        again = longest * (cost.peak_nbytes - cost.held_nbytes) / most
        canvas.box(x + longest * cost.held_nbytes / most, top + 14, again, 26, AGAIN)
        canvas.words(x, top, f"peak {with_unit(cost.peak_nbytes)}", bold=True)
        canvas.words(x, top + 64, _work(cost, plain))
        canvas.words(x, top + 88, f"{cost.time_ms:.0f} ms a step")
    first, every, whole = (costs[name] for name in ROWS)
    alt = (
        f"{layers} blocks drawn to scale, three times. All kept: {with_unit(first.peak_nbytes)} at the peak. With only "
        f"each block's input kept, {with_unit(every.peak_nbytes)}, for {_work(every, plain)}. With one input kept for "
        f"all, the backward begins by recomputing everything: {with_unit(whole.peak_nbytes)}, for "
        f"{_work(whole, plain)}."
    )
    caption = (
        f"A block keeps {with_unit(block_nbytes)}, its input is {with_unit(input_nbytes)}. The blocks are drawn when "
        "the backward has recomputed its first segment; the bars are the peaks"
        + "".join(
            f", which “{name}” has in the forward" for name in ROWS if name != "none" and _in_forward(costs[name])
        )
        + "."
    )
    rows = [(each.strategy.name, *_cells(each)) for each in (first, every, whole)]
    table = Table(["strategy", "held", "peak", "TFLOP", "time, ms"], rows, align="lrrrr")
    legend = key({"held after the forward": KEPT, "on top of it at the peak": AGAIN})
    return Drawing(canvas.svg(), alt, caption, table, provenance, legend)


def _in_forward(cost: Cost) -> bool:
    """Whether the peak, where it is known, is in the forward."""
    return cost.forward_peak_nbytes is not None and cost.forward_peak_nbytes >= cost.peak_nbytes


def _cells(cost: Cost) -> tuple[str, ...]:
    return with_unit(cost.held_nbytes), with_unit(cost.peak_nbytes), f"{cost.flops / 1e12:.1f}", f"{cost.time_ms:.0f}"


def _work(cost: Cost, plain: Cost) -> str:
    more = round(100 * (cost.flops / plain.flops - 1))
    return f"{more} % more arithmetic" if more else "no extra arithmetic"
