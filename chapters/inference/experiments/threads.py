"""One compiled function called from 1 to 8 threads: a small GPT whose calls are short.

Eager, compiled, with a wrapper in C++ and as CUDA graphs, on the same inputs. Each way has a process of its own, in
which it is compiled and called from more and more threads. After a number of threads at which it failed, or answered
wrongly, a new process goes on with the next: what an error leaves behind in CUDA is no finding about the next case.
"""

import random
import signal
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import torch
from torch import Tensor, nn

from compile_lab.measure.child import Child

from ...experiment import OUT_OF_TIME
from ...registry import Progress
from ...shared import subjects
from ..threads import Throughput, throughput

BUDGET_S = 150
"""No process is begun after this."""
THREADS = {"cuda": (1, 2, 4, 8), "cpu": (1, 2)}
ROUND_S = {"cuda": 0.15, "cpu": 0.05}
CHILD_S = 90
"""How long a process may say nothing."""
GRAPHS = "CUDA graphs"
Way = Callable[[nn.Module], Callable]


def _compiled(**settings: Any) -> Way:
    return lambda model: torch.compile(model, **settings)


WAYS: dict[str, Way] = {
    "eager": lambda model: model,
    "compiled": _compiled(),
    GRAPHS: _compiled(mode="reduce-overhead"),
    "C++ wrapper": _compiled(options={"cpp_wrapper": True}),
}


def record(device: str, progress: Progress = iter, *, budget_s: float = BUDGET_S) -> dict[str, Any]:
    """``{"throughputs": [Throughput as a dict], "what", "processes"}``; two minutes on a GPU.

    The ways come in random order. What fails is told in its row's ``error``; ``processes`` says how many each way took.
    """
    until = time.monotonic() + budget_s
    ways = [way for way in WAYS if device == "cuda" or way != GRAPHS]
    rows: list[Throughput] = []
    processes = {}
    for way in progress(random.Random(0).sample(ways, len(ways))):
        left, processes[way] = list(THREADS[device]), 0
        while left:
            if time.monotonic() > until:
                rows.append(Throughput(way, left[0], error=OUT_OF_TIME))
                break
            found = _by_itself(way, device, tuple(left))
            rows += found
            processes[way] += 1
            left = left[len(found) :]
    rows.sort(key=lambda row: (ways.index(row.way), row.threads))
    return {"throughputs": [row.to_json() for row in rows], "what": WHAT, "processes": processes}


def _by_itself(way: str, device: str, counts: tuple[int, ...]) -> list[Throughput]:
    """Rows from one process, up to the first that failed, at least one. An ended process's error is its signal."""
    rows: list[Throughput] = []
    with Child(_send_rows, way, device, counts) as child:
        try:
            while len(rows) < len(counts):
                rows.append(child.heard(CHILD_S))
                if not rows[-1].same:
                    break
        except TimeoutError as late:
            rows.append(Throughput(way, counts[len(rows)], error=f"TimeoutError: {late}"))
        except EOFError:
            code = child.process.exitcode
            why = f"the process ended with {code}, as {_signal(code)} ends it"
            rows.append(Throughput(way, counts[len(rows)], error=why))
    return rows


def _send_rows(pipe: Connection, way: str, device: str, counts: tuple[int, ...]) -> None:
    model, inputs = _subject(device)
    call = WAYS[way](model)
    for count in counts:
        (row,) = throughput({way: call}, inputs, threads=(count,), round_s=ROUND_S[device])
        pipe.send(row)


def _signal(code: int | None) -> str:
    try:
        return signal.Signals(-(code or 0)).name
    except ValueError:
        return "an exit"


WHAT = "MiniGPT, one sequence of 64 tokens"


def _subject(device: str) -> tuple[nn.Module, list[tuple[Tensor, ...]]]:
    """The module, and inputs for each thread."""
    model = subjects.deep_gpt(4 if device == "cuda" else 1, 64, 4, 64, device).eval()
    draw = torch.Generator().manual_seed(0)
    return model, [(torch.randint(600, (1, 64), generator=draw).to(device),) for _ in range(max(THREADS[device]))]
