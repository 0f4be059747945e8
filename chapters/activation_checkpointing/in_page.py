"""Exercises of chapter 08, activation checkpointing."""

from collections.abc import Callable

from ..exercises.judging import exercise


@exercise("08.1", takes=Callable)
def best_segment(answer: Callable) -> str | None:
    """best_segment(blocks, input_nbytes, block_nbytes): the length with the least inputs and activations together."""
    for blocks, inputs, block in [(36, 1, 1), (24, 67, 640), (24, 100, 5), (7, 3, 1), (48, 10, 40)]:
        lengths = [k for k in range(1, blocks + 1) if blocks % k == 0]
        took = answer(blocks, inputs, block)
        said = f"{blocks} blocks that keep {block} bytes each, with inputs of {inputs}"
        if took not in lengths:
            return f"for {said}, it gives {took!r}, which does not divide {blocks}."
        bytes_of = {k: blocks // k * inputs + k * block for k in lengths}
        if bytes_of[took] > min(bytes_of.values()):
            return f"for {said}, segments of {took} need {bytes_of[took]} bytes, and another length needs fewer."
    return None


@exercise("08.3", takes=int)
def least_work(answer: int) -> str | None:
    """Four results of (bytes, work), and room for 8 bytes: the least work that is repeated."""
    if answer == 3:
        return None
    if answer == 5:
        return "that is the work that saving spares; what is repeated is the rest."
    return "repeat less: find the pair that fits." if answer > 3 else "that little does not fit into 8 bytes."
