"""One compiled function, several threads of Python: how many calls a second, and is every answer still right?

All threads call the same function, each with inputs of its own, so that an answer that went to the wrong thread is
seen; they begin together and go on for the same time, and each answer waits for its device, as a request's would. In a
round of its own, which is not timed, every answer is held against what one thread alone was answered.
"""

import contextlib
import statistics
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from compile_lab._torch.dynamo import dynamo_utils
from compile_lab.doors import door
from compile_lab.recordings import RecordedRow, Recording

ROUNDS = 5
Call = Callable[..., Tensor]
PATIENCE_S = 10
"""How long after a round's end its threads may still be at work, all of them together: then they are left behind."""


@dataclass(frozen=True)
class Throughput(RecordedRow):
    """One way with so many threads: calls a second of all together, median and quartiles of five rounds.

    ``same``: every answer is that which one thread alone was given for the same inputs, to rounding.
    ``compiled_again``: frames that Dynamo compiled meanwhile. ``cores``: this process's processor time over the time of
    the rounds, so that what threads gain can be told from what a busy machine takes. ``error``: what a thread raised;
    then there is no figure.
    """

    way: str
    threads: int
    per_s: float | None = None
    low: float | None = None
    high: float | None = None
    same: bool | None = None
    compiled_again: int = 0
    error: str = ""
    cores: float | None = None

    @property
    def rates(self) -> tuple[float, float, float] | None:
        """Calls a second: median and quartiles; None where there is no figure."""
        median, low, high = self.per_s, self.low, self.high
        return None if median is None or low is None or high is None else (median, low, high)

    def scales_from(self, alone: "Throughput") -> bool:
        """Do these threads run at the same time? Either they give more answers, beyond the quartiles, or, where another
        program takes cores from them, they have more of them than one thread had and use them as well.

        >>> one = Throughput("compiled", 1, 100.0, 95.0, 105.0, cores=0.6)
        >>> Throughput("compiled", 2, 130.0, 90.0, 170.0, cores=1.0).scales_from(one)
        True
        >>> Throughput("eager", 2, 90.0, 80.0, 95.0, cores=0.6).scales_from(one)
        False
        """
        if not (self.per_s and alone.per_s and self.cores and alone.cores):
            return False
        if self.low and alone.high and self.low > alone.high:
            return True
        return self.cores > 1.3 * alone.cores and self.per_s / self.cores > 0.65 * alone.per_s / alone.cores


def recorded(recording: Recording) -> list[Throughput]:
    """The rows of the recording ``threads``."""
    return [Throughput.from_json(row) for row in recording.result["throughputs"]]


@door
def throughput(
    calls: Mapping[str, Call],
    inputs: Sequence[tuple[Tensor, ...]],
    threads: Sequence[int] = (1, 2, 4),
    round_s: float = 0.2,
) -> list[Throughput]:
    """Each way called from each number of threads: thread i with ``inputs[i]``. A row whose threads raise, or do not
    come to an end, says so, and the others go on.

    ValueError for a number of threads below 1, fewer inputs than threads, or a round that takes no time.
    """
    if not threads or min(threads) < 1:
        raise ValueError(f"threads={tuple(threads)}: give at least one number, each 1 or more")
    if len(inputs) < max(threads):
        raise ValueError(f"{len(inputs)} inputs for {max(threads)} threads: give each thread inputs of its own")
    if round_s <= 0:
        raise ValueError(f"round_s={round_s}: a round takes some time; give seconds above 0")
    return [_row(way, call, inputs, count, round_s) for way, call in calls.items() for count in threads]


def _row(way: str, call: Call, inputs: Sequence[tuple[Tensor, ...]], count: int, round_s: float) -> Throughput:
    own = inputs[:count]
    try:
        wanted = [_called(call, each).clone() for each in own]
        before = dynamo_utils.counters["frames"]["ok"]
        began, busy = time.monotonic(), time.process_time()
        rates = [sum(_round(call, own, round_s)) / round_s for _ in range(ROUNDS)]
        cores = round((time.process_time() - busy) / (time.monotonic() - began), 2)
        checked = _round(call, own, round_s, wanted)
    except Exception as error:  # whatever a thread raised: it is what the row tells
        said = next(iter(str(error).strip().splitlines()), "")
        return Throughput(way, count, error=f"{type(error).__name__}: {said}")
    low, median, high = (round(rate, 1) for rate in statistics.quantiles(rates, n=4, method="inclusive"))
    again = dynamo_utils.counters["frames"]["ok"] - before
    return Throughput(way, count, median, low, high, min(checked) >= 0, again, cores=cores)


def _round(
    call: Call, inputs: Sequence[tuple[Tensor, ...]], round_s: float, wanted: Sequence[Tensor] | None = None
) -> list[int]:
    """How many calls each thread made; with ``wanted``, its answers, less than 0 for a thread that got a wrong one.

    Raises what one of the threads raised, TimeoutError if one is still at work long after the round.
    """
    begin, stop = threading.Barrier(len(inputs) + 1), threading.Event()
    made, errors = [0] * len(inputs), []

    def work(place: int) -> None:
        try:
            with _stream(inputs[place]):
                _called(call, inputs[place])
                begin.wait(PATIENCE_S)
                while not stop.is_set():
                    answer = _called(call, inputs[place])
                    if wanted and not torch.allclose(answer, wanted[place], rtol=1e-3, atol=1e-3):
                        made[place] = -1
                        return
                    made[place] += 1
        except Exception as error:  # handed to the thread that waits
            errors.append(error)
            begin.abort()

    workers = [threading.Thread(target=work, args=(place,), daemon=True) for place in range(len(inputs))]
    for worker in workers:
        worker.start()
    with contextlib.suppress(threading.BrokenBarrierError):
        begin.wait(PATIENCE_S)
        stop.wait(round_s)
    stop.set()
    until = time.monotonic() + PATIENCE_S
    for worker in workers:
        worker.join(max(0.0, until - time.monotonic()))
    if errors:
        raise next((error for error in errors if not isinstance(error, threading.BrokenBarrierError)), errors[0])
    if any(worker.is_alive() for worker in workers):
        raise TimeoutError(f"a thread was still at work {PATIENCE_S} s after its round")
    return made


def _called(call: Call, inputs: Sequence[Tensor]) -> Tensor:
    """One answer, ready. Gradients are off in each thread by itself: a new thread begins with them on."""
    with torch.no_grad():
        answer = call(*inputs)
    if answer.is_cuda:
        torch.cuda.current_stream().synchronize()
    return answer


def _stream(inputs: Sequence[Tensor]) -> contextlib.AbstractContextManager:
    """A stream of the thread's own, where the inputs are on a GPU."""
    return torch.cuda.stream(torch.cuda.Stream()) if inputs[0].is_cuda else contextlib.nullcontext()
