"""Exercises of chapter 23, letting the compiler schedule the step, that plain Python can judge."""

import random
from collections.abc import Callable, Sequence

from ..exercises.judging import exercise, more_or_fewer

GPU_US, HOST_US, START_US = 68_000, 50_000, 100


@exercise("23.1", takes=int, expects="a whole number of collectives")
def collectives_within_the_step(answer: int) -> str | None:
    """The most collectives that a host can issue one by one before it needs longer than the GPU does."""
    if answer == GPU_US // START_US:
        return "the host issues more than collectives in a step: what is left of its time for them?"
    return more_or_fewer(answer, (GPU_US - HOST_US) // START_US, "when has the host issued the whole step?")


SLICE, WHOLE = 4, 2
"""Bytes of a number in a rank's slice, and in a gathered weight."""
MODELS = (([8, 8, 8], 4), ([16, 64, 32], 8), ([128, 16], 16), ([24, 24, 48, 24], 4), ([8], 2))


@exercise("23.2", takes=Callable)
def weights_held(answer: Callable[[list[int], int, bool], float]) -> str | None:
    """held(layers, ranks, again): bytes of weights on a rank at most; numbers in a layer's weights, in order."""
    for layers, ranks in MODELS:
        own, every, largest = SLICE * sum(layers) // ranks, WHOLE * sum(layers), WHOLE * max(layers)
        for again, right in ((False, own + every), (True, own + largest)):
            got = answer(list(layers), ranks, again)
            if got != right:
                case = f"held({layers}, {ranks}, {again}) is {got!r}"
                return f"{case}: {_held_fault(got, own, every, largest, ranks, again)}"
    return None


def _held_fault(got: object, own: int, every: int, largest: int, ranks: int, again: bool) -> str:
    if got in (every, largest):
        return "where is the slice that the rank keeps all the time?"
    if got in (own * ranks + every, own * ranks + largest):
        return "a rank keeps a slice of each weight, and not the whole."
    if got in (own + every / ranks, own + largest / ranks):
        return "a gathered weight is whole on every rank."
    if again and got == own + every:
        return "if each layer is freed before the next one is gathered, how many are whole at once?"
    if not again and got == own + largest:
        return "a weight that is kept for the backward is still there when the last one comes."
    return "how many bytes has a number in a slice, and how many in a gathered weight?"


ORDERS = ("AG0 w0 MM AG1 w1 MM", "AG0 AG1 w0 MM w1 MM", "AG0 AG1 w1 w0 MM", "MM RS0 MM RS1 w0 w1", "AG0 k w0 MM")


@exercise("23.3", takes=Callable)
def bytes_that_can_hide(answer: Callable[[list[str], list[int]], float]) -> str | None:
    """covered(order, nbytes): bytes of the collectives with a matmul between their start and their wait."""
    drawn = random.Random(0)
    for order in [*map(str.split, ORDERS), *(_drawn_order(drawn) for _ in range(20))]:
        nbytes = [10 * (number + 1) for number in range(sum(token[0] == "w" for token in order))]
        hidden = [number for number in range(len(nbytes)) if "MM" in _between(order, number)]
        right, got = sum(nbytes[number] for number in hidden), answer(list(order), list(nbytes))
        if got == right:
            continue
        text = f"{' '.join(order)}, of {nbytes} bytes, it says {got!r}"
        if got == sum(size for number, size in enumerate(nbytes) if len(_between(order, number)) > 1):
            return f"for {text}: not all that lies between a start and its wait is a matmul."
        if not isinstance(got, int | float):
            return f"for {text}: this asks for a number of bytes."
        few = "more" if got < right else "fewer"
        return f"for {text}: {few} bytes can hide. Which words lie between each start and its wait?"
    return None


def _between(order: Sequence[str], number: int) -> Sequence[str]:
    """The tokens from the start of a collective to its wait."""
    start = next(at for at, token in enumerate(order) if token in (f"AG{number}", f"RS{number}"))
    return order[start : order.index(f"w{number}")]


def _drawn_order(drawn: random.Random) -> list[str]:
    order = [drawn.choice(("MM", "k")) for _ in range(6)]
    for number in range(3):
        start, wait = sorted(drawn.sample(range(len(order) + 1), 2))
        order.insert(wait, f"w{number}")
        order.insert(start, f"{drawn.choice(('AG', 'RS'))}{number}")
    return order
