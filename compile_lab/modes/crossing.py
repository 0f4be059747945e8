"""Two short runs predict where compiling pays; two long ones, in turn, until their sums of seconds cross, say whether.

Both begin from nothing: an empty cache folder, and nothing compiled in memory. Seconds are those of the clock on the
wall on a GPU, which must be idle otherwise; on a CPU, where others may be at work, those that this process and the
compilers it started have worked.
"""

import contextlib
import functools
import resource
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch

from .._torch.dynamo import compiled_anew
from .._torch.inductor import inductor_config, inductor_modes
from ..doors import check_amount, check_whole, door
from ..measure.timing import fp32_meant, one_thread, wait
from .cost import MODES, Step, device_of, wake_compiler
from .payback import LEAST_SAMPLES, Crossing, Payback, first_crossing, payback

COMPILES = 3
FIRST_CALLS = 3
SAMPLE_S = 0.02
SAMPLES = 15
BEYOND = 1.25
"""The long runs go on to so many times their crossing, so that a picture shows it."""
CLOCKS = {"cuda": "wall seconds", "cpu": "CPU seconds of one thread"}


@door
def crossing(
    name: str,
    what: str,
    fn: Callable[..., Any],
    *args: Any,
    step: Step | None = None,
    mode: str = "default",
    samples: int = SAMPLES,
    most_s: float = 20.0,
    compiles: int = COMPILES,
) -> Crossing:
    """The break-even of ``fn(*args)`` from two short runs, and the real one; ``step(fn)`` makes a step if it is given.

    For the prediction it is compiled ``compiles`` times, each time from nothing, and the interval knows their spread.
    The long runs are ended after ``most_s`` seconds of eager steps even if they have not crossed. Raises ValueError
    for an unknown mode, for fewer than five samples, and for ``most_s`` that is no time.

    Eager against eager would never cross:

    >>> import torch
    >>> from compile_lab.modes.crossing import crossing
    >>> crossing("add", "x + 1", lambda x: x + 1, torch.ones(4), mode="eager")
    Traceback (most recent call last):
        ...
    ValueError: mode 'eager' compiles nothing; it is one of default, reduce-overhead, ...
    """
    if mode not in MODES[1:]:
        raise ValueError(f"mode {mode!r} compiles nothing; it is one of {', '.join(MODES[1:])}")
    check_whole("samples", samples, least=LEAST_SAMPLES)
    check_amount("most_s", most_s)
    check_whole("compiles", compiles)
    step = step or (lambda called: called(*args))
    device = device_of(fn, args)
    with _one_thread(device):
        predicted = _short_runs(fn, step, mode, device, samples, compiles)
        compile_s, curve = _long_runs(fn, step, mode, device, predicted, most_s)
    return Crossing(name, what, mode, predicted, compile_s, first_crossing(curve), _thinned(curve), CLOCKS[device])


@door
def seconds(device: str) -> float:
    """The clock: on "cuda" that on the wall, when the device is done; else this process's and its children's work.

    >>> from compile_lab.modes.crossing import seconds
    >>> begin, total = seconds("cpu"), sum(range(1000))
    >>> seconds("cpu") >= begin
    True
    """
    if device == "cuda":
        wait(device)
        return time.perf_counter()
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def _short_runs(fn: Callable, step: Step, mode: str, device: str, samples: int, compiles: int) -> Payback:
    """A prediction: compile a few times, then time a few steps of each way in turn."""
    firsts_s = []
    for _ in range(compiles - 1):
        with _compiled_anew(fn, step, mode, device) as (_, first_s):
            firsts_s.append(first_s)
    with _compiled_anew(fn, step, mode, device) as (compiled, first_s):
        ways = [lambda: step(fn), lambda: step(compiled)]
        repeats = [_repeats(way, device) for way in ways]
        taken = [[_a_step_s(way, n, device) for way, n in zip(ways, repeats, strict=True)] for _ in range(samples)]
    eager, faster = ([1e3 * one for one in way] for way in zip(*taken, strict=True))
    beyond_s = FIRST_CALLS * statistics.median(faster) / 1e3
    return payback([max(0.0, each - beyond_s) for each in (*firsts_s, first_s)], eager, faster)


def _long_runs(
    fn: Callable, step: Step, mode: str, device: str, predicted: Payback, most_s: float
) -> tuple[float, list[tuple[int, float, float]]]:
    """Compile again from nothing, and let both run in turn until the sums of their seconds have crossed."""
    with _compiled_anew(fn, step, mode, device) as (compiled, first_s):
        begin = seconds(device)
        for _ in range(FIRST_CALLS):
            step(fn)
        curve = [(FIRST_CALLS, seconds(device) - begin, first_s)]
        at_once = max(1, min((predicted.steps or 0) // 100, int(1e3 * SAMPLE_S * 5 / predicted.eager_ms)))
        until: float | None = None
        while curve[-1][1] < most_s and (until is None or curve[-1][0] < until):
            steps, eager_s, compiled_s = curve[-1]
            eager_s += at_once * _a_step_s(lambda: step(fn), at_once, device)
            compiled_s += at_once * _a_step_s(lambda: step(compiled), at_once, device)
            curve.append((steps + at_once, eager_s, compiled_s))
            if until is None and compiled_s <= eager_s:
                until = BEYOND * curve[-1][0]
    return round(first_s - FIRST_CALLS * predicted.compiled_ms / 1e3, 4), curve


@contextlib.contextmanager
def _compiled_anew(
    fn: Callable[..., Any], step: Step, mode: str, device: str
) -> Iterator[tuple[Callable[..., Any], float]]:
    """The compiled function, and the seconds of its first calls. What was compiled is forgotten, before and after.

    Before the clock starts, something small is compiled: a compiler that is loaded and has its headers is no part of
    what one function costs. Triton keeps a part of itself in the folder, so on a GPU each folder needs it; a CPU's
    compiler is loaded once a process.
    """
    inductor_modes().clear_caches()
    with compiled_anew(), inductor_modes().fresh_cache(), fp32_meant():
        if device == "cuda":
            wake_compiler(device)
        else:
            _load_compiler_once(device)
        begin = seconds(device)
        compiled = torch.compile(fn, mode=mode)
        for _ in range(FIRST_CALLS):
            step(compiled)
        yield compiled, seconds(device) - begin


@contextlib.contextmanager
def _one_thread(device: str) -> Iterator[None]:
    """On a CPU: one thread computes, so that none that waits is counted, and the compiler is a child that is."""
    if device == "cuda":
        yield
        return
    with one_thread(), inductor_config.patch(compile_threads=1):
        yield


def _a_step_s(call: Callable[[], Any], repeats: int, device: str) -> float:
    begin = seconds(device)
    for _ in range(repeats):
        call()
    return (seconds(device) - begin) / repeats


def _repeats(call: Callable[[], Any], device: str) -> int:
    """As many calls as a sample needs, so that the clock's tick does not show in it."""
    for _ in range(FIRST_CALLS):
        call()
    return max(1, min(2000, round(SAMPLE_S / max(_a_step_s(call, 3, device), 1e-6))))


def _thinned(curve: list[tuple[int, float, float]], most: int = 50) -> tuple[tuple[int, float, float], ...]:
    """At most so many points of it, evenly, the last one among them, to a tenth of a millisecond."""
    stride = -(-len(curve) // most)
    kept = curve[::stride] + ([] if (len(curve) - 1) % stride == 0 else curve[-1:])
    return tuple((steps, round(eager, 4), round(compiled, 4)) for steps, eager, compiled in kept)


_load_compiler_once = functools.cache(wake_compiler)
