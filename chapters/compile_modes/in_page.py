"""Exercises of chapter 06, compile modes."""

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from ..exercises.judging import exercise


@exercise("06.1", takes=Callable)
def break_even(answer: Callable) -> str | None:
    """break_even(compile_s, eager_ms, compiled_ms): calls after which compiling has paid, or None."""
    for times in ((10.0, 3.0, 1.0), (20.5, 2.5, 1.75), (0.0101, 2.0, 1.0), (10.0, 1.0, 2.0), (10.0, 1.0, 1.0)):
        compile_s, eager_ms, compiled_ms = times
        expected = math.ceil(1000 * compile_s / (eager_ms - compiled_ms)) if compiled_ms < eager_ms else None
        try:
            got = answer(*times)
        except ZeroDivisionError:
            return f"for {times} it divides by zero: what if a compiled call saves nothing?"
        if got == expected and isinstance(got, type(expected)):
            continue
        if expected is None:
            return f"for {times} compiling never pays, and yours says {got}."
        if got is None:
            return f"for {times} compiling does pay some time."
        if isinstance(got, float) and math.isclose(got * 1000, times[0] * 1e3 / (times[1] - times[2])):
            return "seconds were divided by milliseconds."
        return f"for {times} it says {got}: is that a number of calls, and the first at which compiling has paid?"
    return None


@exercise("06.2", takes=Callable)
def choose(answer: Callable) -> str | None:
    """choose(costs, calls): the mode that is done first with so many calls."""
    costs = {"eager": (0.0, 5.0), "default": (10.0, 3.0), "reduce-overhead": (12.0, 2.0), "max-autotune": (90.0, 1.9)}
    for calls in (1, 2_000, 4_500, 100_000, 10_000_000):
        best = min(costs, key=lambda mode: costs[mode][0] + calls * costs[mode][1] / 1e3)
        got = answer(dict(costs), calls)
        if got != best:
            return f"with calls = {calls:,} and the costs {costs} it chooses {got!r}, and another one is done earlier."
    return None


@exercise("06.3", takes=float)
def most_that_cuda_graphs_give(answer: float) -> str | None:
    """A call of 2.4 ms that keeps the GPU busy for 0.3 ms."""
    if math.isclose(answer, 2.4 / 0.3, rel_tol=0.01):
        return None
    return f"{answer:g}× would leave {2.4 / answer:.3g} ms a call." if answer > 0 else "a ratio of times is positive."


MOST_CALLS, WAIT_MS, PAUSE_EVERY = 2000, 0.05, 97


@dataclass(frozen=True)
class TimedGpu:
    """What 06.5 times: the costs of a compiled call on a machine with a queue, where others cut in now and then.

    Milliseconds of the CPU and of the GPU a call; the first call compiles and leaves ``tuning_ms`` of work in the
    queue, the second records a CUDA graph, each call number ``PAUSE_EVERY`` is held up by ``pause_ms``.
    """

    issue_ms: float
    gpu_ms: float
    compile_s: float
    record_s: float = 0.0
    tuning_ms: float = 0.0
    pause_ms: float = 0.0

    @property
    def call_ms(self) -> float:
        """What a call takes when many follow one another and nobody cuts in."""
        return max(self.issue_ms, self.gpu_ms)

    @property
    def first_s(self) -> float:
        """What the first calls cost beyond what as many later calls cost."""
        return self.compile_s + self.record_s + self.tuning_ms / 1000

    def __str__(self) -> str:
        said = f"issued in {self.issue_ms:g} ms, {self.gpu_ms:g} ms on the GPU, compiled in {self.compile_s:g} s"
        said = f"{said}, recorded in {self.record_s:g} s" if self.record_s else said
        said = f"{said}, tuned on the GPU for {self.tuning_ms:g} ms" if self.tuning_ms else said
        return f"{said}, held up by {self.pause_ms:g} ms now and then" if self.pause_ms else said


class Rehearsal:
    """One run of a `TimedGpu`: its ``call``, ``wait`` and ``clock`` (in seconds), with a time of its own."""

    def __init__(self, costs: TimedGpu):
        self.costs, self.calls, self.cpu_ms, self.gpu_ms = costs, 0, 0.0, 0.0

    def call(self) -> None:
        """Issue one call: the CPU goes on, the GPU works it off. ValueError after ``MOST_CALLS``."""
        costs, self.calls = self.costs, self.calls + 1
        if self.calls > MOST_CALLS:
            raise ValueError(f"it makes more than {MOST_CALLS:,} calls, and need not")
        before = {1: 1000 * costs.compile_s, 2: 1000 * costs.record_s}.get(self.calls, 0.0)
        held_up = costs.pause_ms if self.calls % PAUSE_EVERY == 0 else 0.0
        self.cpu_ms += before + held_up + costs.issue_ms
        self.gpu_ms = max(self.gpu_ms, self.cpu_ms) + costs.gpu_ms + (costs.tuning_ms if self.calls == 1 else 0.0)

    def wait(self) -> None:
        """Wait until the GPU is done: what torch.cuda.synchronize does."""
        self.cpu_ms = max(self.cpu_ms, self.gpu_ms) + WAIT_MS

    def clock(self) -> float:
        """Seconds on the CPU's clock, which knows nothing of the GPU."""
        return 1000.0 + self.cpu_ms / 1000


TIMED = (
    TimedGpu(0.5, 0.25, 8),
    TimedGpu(0.25, 2, 8),
    TimedGpu(1, 0.8, 8),
    TimedGpu(0.25, 1, 8, tuning_ms=600),
    TimedGpu(1, 0.8, 8, record_s=0.75),
    TimedGpu(0.75, 0.5, 8, pause_ms=60),
)
"""The machines of 06.5, each with one thing more to mind."""


@exercise("06.5", takes=Callable)
def stopwatch(answer: Callable) -> str | None:
    """stopwatch(call, wait, clock): (first_s, call_ms) of a compiled call on a machine that it has never seen."""
    drawn = random.Random(0)
    some = [
        TimedGpu(*(drawn.choice((0.2, 0.5, 1, 2)) for _ in "12"), *(drawn.choice((1, 4)) for _ in "12"))
        for _ in range(10)
    ]
    some = [replace(each, pause_ms=50) for each in some]
    for costs in (*TIMED, *some):
        on = Rehearsal(costs)
        got = answer(on.call, on.wait, on.clock)
        if not isinstance(got, tuple | list) or len(got) != 2 or not all(isinstance(each, int | float) for each in got):
            return f"it returns {got!r}: this asks for two numbers, (first_s, call_ms)."
        if any(map(math.isnan, got)):
            return f"it returns {got!r}, and a time is a number."
        if wrong := _call_off(got[1], costs) or _first_off(got[0], costs):
            return f"for a call {costs}, {wrong}"
    return None


def _call_off(got: float, costs: TimedGpu) -> str | None:
    """What is wrong with the milliseconds of a call, if they are not within a twentieth."""
    if abs(got - costs.call_ms) <= 0.05 * costs.call_ms:
        return None
    begun = f"it says {got:.3g} ms a call:"
    in_turn, held_up = costs.issue_ms + costs.gpu_ms + WAIT_MS, costs.call_ms + costs.pause_ms / PAUSE_EVERY
    if math.isclose(got, costs.issue_ms, rel_tol=0.02):
        return f"{begun} that is the issuing. Who waited for the GPU before the clock was read?"
    if math.isclose(got, in_turn, rel_tol=0.02):
        return f"{begun} CPU and GPU take turns if each call is waited for. Let many follow one another."
    if costs.pause_ms and math.isclose(got, held_up, rel_tol=0.2):
        return f"{begun} that has the delays by others in it. Which figure of many samples leaves them out?"
    if got < costs.call_ms:
        return f"{begun} too little."
    if got > 2 * costs.call_ms:
        return f"{begun} too much. Something of the first calls is in it."
    return f"{begun} too much. Whenever the clock is read the queue runs empty: are enough calls between two readings?"


def _first_off(got: float, costs: TimedGpu) -> str | None:
    """What is wrong with the seconds of the first calls, if they are not within a twentieth."""
    if abs(got - costs.first_s) <= 0.05 * costs.first_s:
        return None
    if got < costs.first_s:
        return f"it says {got:.3g} s for the first calls: too little. More calls than one may be slow."
    return f"it says {got:.3g} s for the first calls: too much. Later calls would have taken a part of that, too."
