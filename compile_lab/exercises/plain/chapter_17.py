"""Exercises of chapter 17, serving what was compiled."""

from collections.abc import Callable

from ...simulator.serving import decode_work, least_ms
from ..judging import exercise


@exercise("17.1", takes=int, asks="a whole number of tokens a second")
def most_tokens(answer: int) -> str | None:
    """Tokens a second of one sequence at most: 7e9 weights of 2 bytes at 3.5e12 bytes/s, the cache left out."""
    right = 250
    if answer == right:
        return None
    if answer == 2 * right:
        return "that counts one byte a weight; each has two."
    return f"{answer} tokens a second would read {answer * 14e9 / 1e12:.3g} TB a second."


CASES = ((12, 768, 50257, 1024), (4, 64, 600, 64), (32, 4096, 50304, 4096))


@exercise("17.2", takes=Callable)
def step_ms(answer: Callable) -> str | None:
    """step(work, batch, bytes_per_s, flop_per_s): the least milliseconds of a decode step."""
    for shape in CASES:
        work = decode_work(*shape)
        for batch in (1, 64, 1024):
            for rates in ((4e12, 7e14), (1e11, 1e11)):
                got, right = answer(work, batch, *rates), least_ms(work, batch, *rates)
                if not isinstance(got, int | float) or isinstance(got, bool):
                    return f"it returns {got!r}: this asks for a number of milliseconds."
                if abs(got - right) > 1e-6 * right:
                    much = "much" if got > right else "little"
                    return f"for a batch of {batch} and {shape[0]} layers it says {got:.3g} ms, which is too {much}."
    return None


PAYBACKS = (((60.0, 30.0, 20.0), 6000), ((60.0, 20.0, 20.0), None), ((9.0, 20.0, 21.0), None), ((1.0, 30.0, 27.0), 334))
"""Seconds of search, milliseconds a request without and with it; requests until it is earned back."""


@exercise("17.3", takes=Callable)
def requests_until(answer: Callable) -> str | None:
    """requests(search_s, before_ms, after_ms): how many whole requests pay a search back; None for never."""
    for given, right in PAYBACKS:
        if (got := answer(*given)) != right:
            return f"for a search of {given[0]:g} s, {given[1]:g} ms before and {given[2]:g} after, it says {got!r}."
    return None


PROMPTS = tuple(1 + (37 * n * n + 11 * n) % 512 for n in range(200))
"""Lengths of 200 prompts, from 1 to 512 tokens."""


MOST_LENGTHS, MOST_WASTE = 8, 0.15


@exercise("17.4", takes=Callable)
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
        return f"it compiles {lengths} lengths, which is more than {MOST_LENGTHS}; its padding is {waste:.0%}."
    if waste > MOST_WASTE:
        return f"it compiles {lengths} lengths and pads {waste:.0%}, more than {MOST_WASTE:.0%}."
    return None
