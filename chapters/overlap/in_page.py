"""Exercises of chapter 13, overlap."""

import random
from collections.abc import Callable, Sequence

from compile_lab.simulator import wire
from compile_lab.simulator.overlap import Span, difference, merged, total_ms

from ..exercises.judging import exercise


@exercise("13.1", takes=Callable)
def exposed_time(answer: Callable) -> str | None:
    """exposed(compute, communication): the milliseconds of communication in which nothing is computed."""
    drawn = random.Random(0)
    cases = [([(0, 4)], [(1, 3)]), ([(0, 4)], [(3, 6)]), ([(0, 4), (2, 3)], [(1, 6), (5, 7)]), ([], [(1, 2), (1, 2)])]
    for _ in range(20):
        one, other = ([(at, at + drawn.randrange(1, 9)) for at in drawn.sample(range(40), 5)] for _ in range(2))
        cases.append((one, other))
    for compute, communication in cases:
        merged_pair = (merged(Span(*each) for each in spans) for spans in (communication, compute))
        right = total_ms(difference(*merged_pair))
        got = answer(list(compute), list(communication))
        if not isinstance(got, int | float) or abs(got - right) > 1e-6:
            much = "little" if isinstance(got, int | float) and got < right else "much"
            return f"for compute {compute} and communication {communication} it says {got!r}, which is too {much}."
    return None


@exercise("13.2", takes=Callable)
def ddp_buckets(answer: Callable) -> str | None:
    """buckets(nbytes, cap): positions of the gradients that DDP sends together, in the order of sending."""
    drawn = random.Random(0)
    cases = [([10, 10, 10], 20), ([30, 1], 20), ([5], 20), ([1, 1, 50, 1], 20)]
    cases += [([drawn.randrange(1, 30) for _ in range(12)], drawn.randrange(5, 60)) for _ in range(10)]
    for nbytes, cap in cases:
        right = wire.buckets(nbytes, cap)
        got = answer(list(nbytes), cap)
        if not isinstance(got, list) or not all(isinstance(each, list | tuple) for each in got):
            return "this asks for a list of lists of positions."
        if [list(each) for each in got] != right:
            first = next(at for at, each in enumerate([*map(list, got), None]) if at >= len(right) or each != right[at])
            return f"for gradients of {nbytes} bytes and a cap of {cap}, bucket {first} is another one in DDP."
    return None


@exercise("13.3", takes=float, expects="a number from 0 to 1")
def hidden_share(answer: float) -> str | None:
    """The hidden share of four equal gradients, one every 10 ms, each its own bucket, each 10 ms on the wire."""
    gradients = [wire.Gradient(10.0 * at, 100) for at in range(1, 5)]
    found = wire.ddp_overlap(gradients, 40, cap_nbytes=1, bytes_per_ms=10)
    if abs(answer - found.fraction) < 1e-6:
        return None
    more = "more" if answer < found.fraction else "less"
    return (
        f"{more} than {answer:g} of it is hidden: draw both rows. When does the wire begin, and what is left at 40 ms?"
    )


ORDERS = (
    "AG0 w0 MM AG1 w1 MM AG2 w2 MM AG3 w3 MM",
    "AG0 w0 MM k AG1 w1 MM k AG2 w2 MM k",
    "AG0 w0 MM",
)


@exercise("13.4", takes=Callable)
def prefetch(answer: Callable) -> str | None:
    """prefetch(order): every gather started one matmul earlier, and none earlier than that."""
    for text in ORDERS:
        order = text.split()
        got = answer(list(order))
        if sorted(got) != sorted(order):
            return f"for {text} the tokens are not the same any more: nothing is added or left out."
        if [each for each in got if each[:2] != "AG"] != [each for each in order if each[:2] != "AG"]:
            return f"for {text} more than the gathers has moved."
        try:
            span = wire.step_of(got, 1, 1).span_ms
        except ValueError as error:
            return f"for {text}: {error}."
        if (most := _most_ahead(got)) > 2:
            return f"for {text} there are {most} gathered weights at one time that are not used yet: two are enough."
        if span > order.count("MM") + 1:
            return f"for {text} the step takes {span:g} ms with 1 ms for everything, and can take less."
    return None


def _most_ahead(order: Sequence[str]) -> int:
    """Weights that are gathered, or on their way, and whose matmul has not begun."""
    ahead = most = 0
    for token in order:
        ahead += (token[:2] == "AG") - (token == "MM")
        most = max(most, ahead)
    return most
