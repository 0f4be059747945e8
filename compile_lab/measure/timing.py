"""How long does a call take? Samples of some ten milliseconds, of which the median and the quartiles are told.

One sample is many calls in a row, so that a clock's resolution and a wait for the device are spread over all of them.
"""

import contextlib
import functools
import gc
import itertools
import random
import statistics
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import torch

SAMPLES = 25
SAMPLE_S = 0.01
MOST_REPEATS = 2000
WARM_UP_CALLS = 3
SELDOM = 20_000
"""So many objects are made between two looks for garbage; Python's own number is 700."""


class Timed(Protocol):
    """What was timed in samples: the quartiles of its milliseconds."""

    @property
    def low_ms(self) -> float: ...
    @property
    def high_ms(self) -> float: ...


def distinct(one: Timed, other: Timed) -> bool:
    """Whether two times can be told apart: their quartiles do not overlap."""
    return one.high_ms < other.low_ms or other.high_ms < one.low_ms


def wait(device: str | torch.device) -> None:
    """Until a "cuda" device has done what it was given; a "cpu" has, when a call returns."""
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize(None if device == "cuda" else device)


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """One thread computes in the block: sharing small work out takes longer than the work."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@contextlib.contextmanager
def core_left() -> Iterator[None]:
    """In the block torch computes with a thread less, so that a child has a core: threads that share small work out
    would wait for the one whose core the child has."""
    threads = torch.get_num_threads()
    torch.set_num_threads(max(1, threads - 1))
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@contextlib.contextmanager
def collector_off() -> Iterator[None]:
    """In the block Python's garbage collector pauses nothing, and frees nothing but by reference counts."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@contextlib.contextmanager
def collected_seldom() -> Iterator[None]:
    """In the block Python looks for garbage less often, and only in what is made there: a tenth of tracing is that."""
    before = gc.get_threshold()
    gc.freeze()
    if before[0]:
        gc.set_threshold(max(before[0], SELDOM), *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


@contextlib.contextmanager
def fp32_meant() -> Iterator[None]:
    """In the block torch does not advise to take TensorFloat32: fp32 is meant, as in eager."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="TensorFloat32")
        yield


def samples_us(call: Callable[[], Any], device: str, samples: int = SAMPLES, from_idle: bool = False) -> list[float]:
    """Microseconds of one ``call``, a figure for each sample, after three calls to warm up.

    The device is waited for once, at the end of a sample. ``from_idle``: each call starts on an idle device and is
    timed until it returns, whether or not the device is done.
    """

    def one_by_one(repeats: int) -> float:
        taken = 0.0
        for _ in range(repeats):
            wait(device)
            start = time.perf_counter()
            call()
            taken += time.perf_counter() - start
        return taken / repeats * 1e6

    in_a_row = functools.partial(_in_a_row, call, device)
    in_a_row(WARM_UP_CALLS)
    repeats = _repeats(in_a_row(1))
    sample = one_by_one if from_idle else in_a_row
    sample(repeats)
    taken = [sample(repeats) for _ in range(samples)]
    wait(device)
    return taken


def _in_a_row(call: Callable[[], Any], device: str, repeats: int) -> float:
    """Microseconds of each of so many calls; the device is waited for at their end."""
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    wait(device)
    return (time.perf_counter() - start) / repeats * 1e6


def _repeats(one_us: float, sample_s: float = SAMPLE_S, most: int = MOST_REPEATS) -> int:
    """How many calls fill a sample."""
    return max(1, min(most, int(sample_s * 1e6 / max(one_us, 0.1))))


def in_turn_us(
    calls: Mapping[str, Callable[[], Any]], device: str, rounds: int = SAMPLES, sample_s: float = SAMPLE_S
) -> dict[str, list[float]]:
    """Microseconds of each of several calls, timed side by side: ``rounds`` samples of each.

    A round takes one sample of every call, in another random order each time (always the same orders): what a machine
    does meanwhile, it does to all of them. A sample is many calls in a row; the device is waited for at its end.
    """

    def sample(call: Callable[[], Any], repeats: int) -> float:
        wait(device)
        return _in_a_row(call, device, repeats)

    repeats = {}
    for name, call in calls.items():
        sample(call, WARM_UP_CALLS)
        repeats[name] = _repeats(sample(call, 1), sample_s)
        sample(call, repeats[name])
    taken: dict[str, list[float]] = {name: [] for name in calls}
    order, draw = list(calls), random.Random(0)
    for _ in range(rounds):
        draw.shuffle(order)
        for name in order:
            taken[name].append(sample(calls[name], repeats[name]))
    return taken


def prepared_samples_us(
    prepare: Callable[[], Any],
    call: Callable[[Any], Any],
    device: str,
    samples: int = SAMPLES,
    most: int = MOST_REPEATS,
) -> list[float]:
    """Microseconds of one ``call(prepare())``, of which the preparing is not timed: a figure for each sample.

    For what can be called once only, as the backward of a graph. A sample prepares up to ``most`` of them, waits for
    the device, and makes their calls in a row.
    """

    def in_a_row(repeats: int) -> float:
        prepared = [prepare() for _ in range(repeats)]
        wait(device)
        start = time.perf_counter()
        while prepared:
            call(prepared.pop())
        wait(device)
        return (time.perf_counter() - start) / repeats * 1e6

    in_a_row(min(most, WARM_UP_CALLS))
    repeats = _repeats(in_a_row(1), most=min(most, MOST_REPEATS))
    in_a_row(repeats)
    return [in_a_row(repeats) for _ in range(samples)]


def summary_us(taken: Sequence[float]) -> dict[str, float]:
    """``median_us`` and the quartiles ``low_us`` and ``high_us`` of microseconds, to a nanosecond."""
    low, median, high = statistics.quantiles(taken, n=4)
    return {"median_us": round(median, 3), "low_us": round(low, 3), "high_us": round(high, 3)}


def summary_ms(taken_ms: Sequence[float], digits: int = 5) -> dict[str, float]:
    """``median_ms`` and the quartiles ``low_ms`` and ``high_ms`` of milliseconds, to so many digits."""
    low, median, high = (round(each, digits) for each in statistics.quantiles(taken_ms, n=4))
    return {"median_ms": median, "low_ms": low, "high_ms": high}


REPEATS = 30
WARM_UP_S = 0.3


def sustained_ms(call: Callable[[], Any], device: torch.device) -> list[float]:
    """Milliseconds of each of `REPEATS` calls, one after the other on a device that has been at work for 0.3 s."""
    end = time.perf_counter() + WARM_UP_S
    while time.perf_counter() < end:
        call()
        wait(device)
    return durations_ms(call, device, REPEATS)


def durations_ms(call: Callable[[], Any], device: torch.device, repeats: int) -> list[float]:
    call()
    if device.type != "cuda":
        return [_in_a_row(call, "cpu", 1) / 1e3 for _ in range(repeats)]
    # Marks between calls that follow one another without a pause: the GPU never waits for Python.
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(repeats + 1)]
    for mark in marks[:-1]:
        mark.record()
        call()
    marks[-1].record()
    wait(device)
    return [first.elapsed_time(second) for first, second in itertools.pairwise(marks)]
