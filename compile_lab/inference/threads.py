"""One compiled function, several threads of Python: how many calls a second, and is every answer still right?

All threads call the same function with the same inputs, begin together and go on for the same time; each answer waits
for its device, as a request's would. The last answer of each thread is held against the answer of the thread that
made the function.
"""

import contextlib
import statistics
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from .._torch.dynamo import dynamo_utils
from ..doors import door
from ..recordings import Recording

ROUNDS = 5
PATIENCE_S = 60
"""How long after its round a thread may still be at work: then it counts as stuck, and is left behind."""


@dataclass(frozen=True)
class Throughput:
    """One way with so many threads: calls a second of all together, median and quartiles of five rounds.

    ``same``: every thread's last answer is that of one thread, to rounding. ``compiled_again``: frames that Dynamo
    compiled meanwhile. ``error``: what a thread raised; then there is no figure.
    """

    way: str
    threads: int
    per_s: float | None = None
    low: float | None = None
    high: float | None = None
    same: bool | None = None
    compiled_again: int = 0
    error: str = ""

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return asdict(self)


def recorded(recording: Recording) -> list[Throughput]:
    """The rows of the recording ``threads``."""
    return [Throughput(**row) for row in recording.result["throughputs"]]


@door
def throughput(
    calls: Mapping[str, Callable[..., Tensor]],
    *inputs: Tensor,
    threads: Sequence[int] = (1, 2, 4),
    round_s: float = 0.2,
    progress: Callable[[list], Iterable] = iter,
) -> list[Throughput]:
    """Each way called from each number of threads. A thread that raises ends its way's row, and the others go on.

    ValueError for a number of threads below 1, or a round that takes no time.
    """
    if not threads or min(threads) < 1:
        raise ValueError(f"threads={tuple(threads)}: give at least one number, each 1 or more")
    if round_s <= 0:
        raise ValueError(f"round_s={round_s}: a round takes some time; give seconds above 0")
    rows = []
    for way, count in progress([(way, count) for way in calls for count in threads]):
        rows.append(_row(way, calls[way], inputs, count, round_s))
    return rows


def _row(way: str, call: Callable[..., Tensor], inputs: Sequence[Tensor], count: int, round_s: float) -> Throughput:
    try:
        wanted = _called(call, inputs).clone()
        before = dynamo_utils.counters["frames"]["ok"]
        rounds = [_round(call, inputs, count, round_s) for _ in range(ROUNDS)]
    except Exception as error:  # whatever a thread raised: it is what the row tells
        said = next(iter(str(error).strip().splitlines()), "")
        return Throughput(way, count, error=f"{type(error).__name__}: {said}")
    rates = [rate for rate, _ in rounds]
    low, median, high = statistics.quantiles(rates, n=4, method="inclusive")
    same = all(torch.allclose(one, wanted, rtol=1e-3, atol=1e-3) for _, answers in rounds for one in answers)
    again = dynamo_utils.counters["frames"]["ok"] - before
    return Throughput(way, count, *(round(rate, 1) for rate in (median, low, high)), same, again)


def _round(
    call: Callable[..., Tensor], inputs: Sequence[Tensor], count: int, round_s: float
) -> tuple[float, list[Tensor]]:
    """Calls a second of all threads together, and the last answer of each; raises what one of them raised."""
    begin, done, errors = threading.Barrier(count + 1), [], []
    stop = threading.Event()

    def work() -> None:
        made = 0
        try:
            with _stream(inputs):
                answer = _called(call, inputs)
                begin.wait(PATIENCE_S)
                while not stop.is_set():
                    answer = _called(call, inputs)
                    made += 1
                done.append((made, answer.clone()))
        except Exception as error:  # handed to the thread that waits
            errors.append(error)
            begin.abort()

    workers = [threading.Thread(target=work, daemon=True) for _ in range(count)]
    for worker in workers:
        worker.start()
    with contextlib.suppress(threading.BrokenBarrierError):
        begin.wait(PATIENCE_S)
        start = time.perf_counter()
        stop.wait(round_s)
    stop.set()
    for worker in workers:
        worker.join(PATIENCE_S)
    if errors:
        raise next((error for error in errors if not isinstance(error, threading.BrokenBarrierError)), errors[0])
    if any(worker.is_alive() for worker in workers):
        raise TimeoutError(f"a thread was still at work {PATIENCE_S} s after its round")
    return sum(made for made, _ in done) / (time.perf_counter() - start), [answer for _, answer in done]


def _called(call: Callable[..., Tensor], inputs: Sequence[Tensor]) -> Tensor:
    """One answer, ready. Gradients are off in each thread by itself: a new thread begins with them on."""
    with torch.no_grad():
        answer = call(*inputs)
    if answer.is_cuda:
        torch.cuda.current_stream().synchronize()
    return answer


def _stream(inputs: Sequence[Tensor]) -> contextlib.AbstractContextManager:
    """A stream of the thread's own, where the inputs are on a GPU."""
    return torch.cuda.stream(torch.cuda.Stream()) if inputs[0].is_cuda else contextlib.nullcontext()
