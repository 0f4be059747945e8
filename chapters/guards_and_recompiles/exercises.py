"""Exercises of chapter 02, guards and recompiles."""

import functools
import random
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from compile_lab.dynamo.recompiles import WatchedCall, replay

from ..exercises.judging import exercise


def weighted(x: torch.Tensor, n: int) -> torch.Tensor:
    """The function whose calls 02.1 chooses and 02.4 counts."""
    return x * n + x.shape[0]


def _compiled(calls: Sequence[WatchedCall]) -> int:
    return sum(call.outcome == "compiled" for call in calls)


def _first_error(calls: Sequence[WatchedCall]) -> str | None:
    return next(
        (f"call {at} {call.outcome}: {call.result}." for at, call in enumerate(calls, 1) if _raised(call)), None
    )


def _raised(call: WatchedCall) -> bool:
    return call.outcome.startswith("raised")


@exercise("02.1")
def three_of_five(answer: Sequence[tuple[Any, ...]]) -> str | None:
    """Five calls of weighted(x, n), alike but for length and number, of which the first, third and fifth compile."""
    if not isinstance(answer, list | tuple) or not all(isinstance(args, tuple) and len(args) == 2 for args in answer):
        return "this asks for a list of pairs (x, n)."
    if len(answer) != 5:
        return f"these are {len(answer)} calls, not five."
    for at, (x, n) in enumerate(answer, 1):
        if not (isinstance(x, torch.Tensor) and x.dtype == torch.float32 and x.ndim == 1 and type(n) is int):
            return f"call {at} is not of a float32 tensor of one dimension and an int."
        if x.requires_grad or not x.is_contiguous():
            return f"in call {at}, x is more than a length: torch.ones(k) is enough."
    calls = replay(weighted, answer)
    if wrong := _first_error(calls):
        return wrong
    outcomes = [call.outcome for call in calls]
    if _compiled(calls) != 3:
        return f"{_compiled(calls)} of the calls compile, not three: {', '.join(outcomes)}."
    wanted = [outcome == "compiled" for outcome in outcomes] == [True, False] * 2 + [True]
    return None if wanted else f"three compile, but not the first, third and fifth: {', '.join(outcomes)}."


class Decayed(nn.Module):
    """What 02.2 asks to be rewritten: it scales by 0.9 to the number of calls so far, more_or_fewer in Python."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return x * 0.9**self.calls


@exercise("02.2")
def counts_without_recompiling(answer: Callable[[], nn.Module]) -> str | None:
    """A module that does what Decayed does, compiled once. ``answer`` makes a fresh one when called."""
    if not callable(answer) or isinstance(answer, nn.Module):
        return "this asks for the class, not for an object of it."
    right, eager, x = Decayed(), answer(), torch.linspace(-1, 1, 5)
    for call in range(1, 4):
        if not torch.allclose(torch.as_tensor(eager(x)), right(x)):
            return f"the result of call {call} is wrong."
    right, calls = Decayed(), replay(answer(), [(x,)] * 12)
    if wrong := _first_error(calls):
        return wrong
    for at, made in enumerate(calls, 1):
        if not torch.allclose(made.result, right(x)):
            return f"the compiled result of call {at} is wrong."
    if (count := _compiled(calls)) != 1:
        failed = next((f": {call.failed[0]}" for call in calls if call.failed), "")
        return f"it is compiled {count} times in 12 calls{failed}."
    eager_calls = sum(call.outcome == "eager" for call in calls)
    return f"{eager_calls} of 12 calls run eagerly." if eager_calls else None


def embedded(tokens: torch.Tensor) -> torch.Tensor:
    """What 02.3 compiles: a stand-in for a model's first lines, with a limit of 64 tokens."""
    if tokens.shape[1] > 64:
        raise ValueError("too many tokens")
    positions = torch.arange(tokens.shape[1])
    return tokens * 2 + positions


@exercise("02.3", takes=Callable, expects="a function of the tokens, not {given}")
def one_graph_for_all_lengths(answer: Callable[[torch.Tensor], torch.Tensor]) -> str | None:
    """A function that marks a batch of tokens so that lengths 2 to 64 are served by one graph, the first included."""
    inputs = [answer(torch.ones(2, length, dtype=torch.int64)) for length in range(2, 65)]
    if any(not isinstance(tokens, torch.Tensor) for tokens in inputs):
        return "the function must return the tokens that it has marked."
    if any(tokens.shape != (2, length) for length, tokens in enumerate(inputs, 2)):
        return "the tokens must keep their shape."
    calls = replay(embedded, [(tokens,) for tokens in inputs])
    if wrong := _first_error(calls):
        return wrong
    if graphs := sum(len(call.graphs) for call in calls) - 1:
        failed = next((f" A guard that failed: {call.failed[0]}." for call in calls if call.failed), "")
        return f"{graphs + 1} graphs for 63 lengths.{failed}"
    return None


Given = tuple[int, int, bool]


def signed(x: torch.Tensor, n: int, up: bool) -> torch.Tensor:
    """The function whose compilations 02.5 predicts."""
    return x * n + x.shape[0] if up else x * n - x.shape[0]


CALL_SERIES: tuple[tuple[tuple[Given, ...], str], ...] = (
    (((4, 2, True), (4, 2, True)), "the same call needs no new code."),
    (((4, 2, True), (5, 2, True), (6, 2, True)), "a size that has varied is a symbol from then on."),
    (((4, 2, True), (4, 2, False), (4, 2, True)), "a bool is a constant, and earlier code stays."),
    (((4, 2, True), (4, 3, True), (4, 1, True), (4, 0, True)), "an int that has varied takes 0 and 1, too."),
    (((4, 2, True), (5, 2, True), (1, 2, True), (1, 2, True)), "a size of 1 fits no symbol."),
    (((4, 2, True), (5, 3, True), (9, 7, True)), "both may become symbols in one compilation."),
    (((4, 2, True), (5, 2, True), (5, 3, True), (4, 9, True)), "what has varied stays a symbol in later code."),
    (((4, 2, True), (5, 2, False), (6, 2, True), (7, 2, False)), "the other code knows what has varied, too."),
)
"""Calls of 02.5 as (length of x, n, up), each series with what it shows."""


@functools.cache
def _compilations(calls: tuple[Given, ...]) -> int:
    """How many of the calls torch compiles: asked of torch itself."""
    return _compiled(replay(signed, [(torch.ones(length), n, up) for length, n, up in calls]))


@exercise("02.5", takes=Callable)
def predicts_compilations(answer: Callable) -> str | None:
    """compilations(calls): how many calls of signed, each (length of x, n, up), torch compiles."""
    drawn = random.Random(0)
    pools = ([(drawn.choice((1, 2, 3, 5, 8)), drawn.randrange(4), drawn.random() < 0.7) for _ in "1234"] for _ in "12")
    some = [(tuple(drawn.choices(pool, k=7)), "keep the account from call to call.") for pool in pools]
    for calls, why in (*CALL_SERIES, *some):
        got, right = answer(list(calls)), _compilations(calls)
        if not isinstance(got, int) or isinstance(got, bool):
            return f"it returns {got!r}: this asks for a whole number."
        if got != right:
            return f"for {list(calls)} torch compiles {'more' if got < right else 'fewer'} than {got} times: {why}"
    return None
