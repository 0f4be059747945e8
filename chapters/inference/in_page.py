"""Exercises of chapter 21, serving what was compiled."""

from collections.abc import Callable, Sequence

from compile_lab.simulator.serving import DecodeWork, least_ms, sized_work

from ..exercises.judging import exercise

MACHINES = (
    (sized_work(7, 4096, 2), 141e9, 4.2e12, 7e14, 20.0),
    (sized_work(7, 4096, 2, heads_a_key=8), 141e9, 4.2e12, 7e14, 20.0),
    (sized_work(7, 256, 2, heads_a_key=8), 80e9, 3.3e12, 7e14, 4.0),
    (sized_work(7, 128, 0.5, heads_a_key=8), 80e9, 3.3e12, 2e13, 40.0),
    (sized_work(70, 4096, 2), 141e9, 4.2e12, 7e14, 40.0),
    (sized_work(70, 4096, 1), 141e9, 4.2e12, 7e14, 10.0),
)
"""Work, memory, bandwidth, rate, and the milliseconds that a step may take: bound by memory, reading, arithmetic."""


@exercise("21.1", takes=Callable)
def largest_batch(answer: Callable) -> str | None:
    """batch(work, memory_nbytes, bytes_per_s, flop_per_s, limit_ms): the most sequences that fit and are in time."""
    for case in MACHINES:
        work, memory, *rates, limit_ms = case
        got, right = answer(*case), _most(*case)
        if not isinstance(got, int) or isinstance(got, bool):
            return f"it returns {got!r}: this asks for a whole number of sequences."
        if got != right:
            weights, cache = work.weights_nbytes / 1e9, work.cache_nbytes / 1e9
            why = f"for weights of {weights:.3g} GB, caches of {cache:.2g} GB and {limit_ms:g} ms it says {got}"
            if got > 0 and work.nbytes(got) > memory:
                return f"{why}, which takes {work.nbytes(got) / 1e9:.0f} GB of {memory / 1e9:.0f}."
            if got > 0 and least_ms(work, got, *rates) > limit_ms:
                return f"{why}, whose step takes {least_ms(work, got, *rates):.3g} ms."
            return f"{why}; {right} fit and are in time."
    return None


def _most(work: DecodeWork, memory: float, bytes_per_s: float, flop_per_s: float, limit_ms: float) -> int:
    batch = 0
    while work.nbytes(batch + 1) <= memory and least_ms(work, batch + 1, bytes_per_s, flop_per_s) <= limit_ms:
        batch += 1
    return batch


STREAMS = (
    (16,),
    (16, 16),
    (16, 32),
    (16, 32, 48, 16),
    (1, 16),
    (16, 1),
    (16, 1, 32),
    (1, 16, 32, 1),
    (16, 32, 1, 1),
    (),
)
"""Lengths of prompts, one request after the other."""


@exercise("21.2", takes=Callable)
def compiled_requests(answer: Callable) -> str | None:
    """compilations(lengths): for how many of these requests something is compiled, with automatic dynamic shapes."""
    for lengths in STREAMS:
        if (got := answer(lengths)) != (right := compilations(lengths)):
            return (
                f"for the lengths {', '.join(map(str, lengths)) or 'of no request'} it says {got!r}; {right} compile."
            )
    return None


def compilations(lengths: Sequence[int]) -> int:
    """What torch does with one size that varies: a constant, then a symbol for what is above 1; a 1 by itself."""
    constants: set[int] = set()
    symbol, made = False, 0
    for length in lengths:
        if length in constants or (symbol and length > 1):
            continue
        if length == 1 or not made:
            constants.add(length)
        else:
            symbol = True
        made += 1
    return made


PROMPTS = tuple(1 + (37 * n * n + 11 * n) % 512 for n in range(200))
"""Lengths of 200 prompts, from 1 to 512 tokens."""


MOST_LENGTHS, MOST_WASTE = 8, 0.15


@exercise("21.3", takes=Callable)
def bucketed(answer: Callable) -> str | None:
    """bucket(length): the padded length; few different ones (each is compiled), and little padding."""
    padded = [answer(length) for length in PROMPTS]
    for length, got in zip(PROMPTS, padded, strict=True):
        if not isinstance(got, int) or isinstance(got, bool):
            return f"it returns {got!r} for {length} tokens: this asks for a whole number."
        if got < length:
            return f"a prompt of {length} tokens does not fit into {got}."
        if got > 512:
            return f"a prompt of {length} tokens is padded to {got}; the cache has 512 slots."
    lengths, waste = len(set(padded)), sum(padded) / sum(PROMPTS) - 1
    if lengths > MOST_LENGTHS:
        return f"it compiles {lengths} lengths, which is more than {MOST_LENGTHS}; its padding is {100 * waste:.0f} %."
    if waste > MOST_WASTE:
        return f"it compiles {lengths} lengths and pads {100 * waste:.0f} %, more than {100 * MOST_WASTE:.0f} %."
    return None
