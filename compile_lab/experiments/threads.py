"""One compiled function called from 1 to 8 threads: a small GPT whose calls are short, and a product that is long.

Eager, compiled, with a wrapper in C++, as CUDA graphs and as a package of AOTInductor, on the same inputs. On a GPU
two of them have a process of their own: several threads inside them have ended it.
"""

import multiprocessing
import signal
import tempfile
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from .._torch.dynamo import reset_dynamo
from .._torch.packages import packaged, unpacked
from ..inference.threads import Throughput, throughput
from . import subjects
from .registry import Progress

BUDGET_S = 150
"""No way is begun after this."""
THREADS = {"cuda": (1, 2, 4, 8), "cpu": (1, 2)}
ROUND_S = {"cuda": 0.15, "cpu": 0.05}
OUT_OF_TIME = "not begun: the recording's time was used up"


def record(device: str, progress: Progress = iter, *, budget_s: float = BUDGET_S) -> dict[str, Any]:
    """``{"throughputs": [Throughput as a dict], "subjects": {name: what it is}, "runners"}``; two minutes on a GPU.

    A way's name begins with its subject's. What fails is told in its row's ``error``.
    """
    until = time.monotonic() + budget_s
    subjects_here = _subjects(device)
    steps = [(name, way) for name in subjects_here for way in WAYS if device == "cuda" or way != GRAPHS]
    rows: list[Throughput] = []
    for name, way in progress(steps):
        if time.monotonic() > until:
            rows.append(Throughput(f"{name}: {way}", 1, error=OUT_OF_TIME))
        elif device == "cuda" and way in ENDED:
            rows += _by_itself(name, way, device)
        else:
            rows += _rows(name, way, device, *subjects_here[name][1:])
    told = {name: what for name, (what, _, _) in subjects_here.items()}
    return {"throughputs": [row.to_json() for row in rows], "subjects": told, "runners": RUNNERS}


def _rows(
    name: str, way: str, device: str, model: nn.Module, inputs: list[tuple[Tensor, ...]], counts: tuple[int, ...] = ()
) -> list[Throughput]:
    title = f"{name}: {way}"
    reset_dynamo()
    with tempfile.TemporaryDirectory() as folder:
        try:
            call = WAYS[way](model, inputs[0], Path(folder))
        except Exception as error:  # a way that this torch does not go: the row says so, and the others stand
            return [Throughput(title, 1, error=f"{type(error).__name__}: {str(error).strip()[:300]}")]
        return throughput({title: call}, inputs, threads=counts or THREADS[device], round_s=ROUND_S[device])


def _by_itself(name: str, way: str, device: str) -> list[Throughput]:
    """The same from a process of its own; the number of threads at which it ended has the signal as its error."""
    context = multiprocessing.get_context("spawn")  # fork and CUDA do not go together
    ours, theirs = context.Pipe()
    process = context.Process(target=_told, args=(theirs, name, way, device), daemon=True)
    process.start()
    theirs.close()
    rows: list[Throughput] = []
    try:
        while ours.poll(CHILD_S):
            rows += ours.recv()
    except EOFError:
        process.join(LEAVE_S)  # it is ending by itself, and its exit code is wanted
    process.kill()
    process.join()
    if len(rows) < len(THREADS[device]):
        why = f"the process ended with {process.exitcode}, as {_signal(process.exitcode)} ends it"
        rows.append(Throughput(f"{name}: {way}", THREADS[device][len(rows)], error=why))
    return rows


def _told(pipe: Connection, name: str, way: str, device: str) -> None:
    _, model, inputs = _subjects(device)[name]
    for count in THREADS[device]:
        pipe.send(_rows(name, way, device, model, inputs, (count,)))


def _signal(code: int | None) -> str:
    try:
        return signal.Signals(-(code or 0)).name
    except ValueError:
        return "an exit"


CHILD_S, LEAVE_S = 120, 20
"""How long a process of its own may say nothing, and take to end."""
GRAPHS, PACKAGE = "CUDA graphs", "package"
ENDED = GRAPHS, PACKAGE
"""Ways in which several threads have ended the process."""
RUNNERS = 8
"""Copies of its buffers that a package keeps, so that as many threads can be inside."""


def _compiled(**settings: Any) -> Callable[[nn.Module, tuple[Tensor, ...], Path], Callable]:
    return lambda model, inputs, folder: torch.compile(model, **settings)


def _package(model: nn.Module, inputs: tuple[Tensor, ...], folder: Path) -> Callable:
    with torch.no_grad():
        return unpacked(packaged(torch.export.export(model, inputs), folder / "model.pt2"), num_runners=RUNNERS)


WAYS: dict[str, Callable[[nn.Module, tuple[Tensor, ...], Path], Callable]] = {
    "eager": lambda model, inputs, folder: model,
    "compiled": _compiled(),
    GRAPHS: _compiled(mode="reduce-overhead"),
    PACKAGE: _package,
    "C++ wrapper": _compiled(options={"cpp_wrapper": True}),
}


def _subjects(device: str) -> dict[str, tuple[str, nn.Module, list[tuple[Tensor, ...]]]]:
    """By name: what it is, the module, and inputs for each thread."""
    torch.manual_seed(0)
    large = device == "cuda"
    gpt = subjects.deep_gpt(4 if large else 1, 64, 4, 64, device).eval()
    width = 4096 if large else 64
    product = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, width)).to(device).eval()
    dtype = torch.bfloat16 if large else torch.float32
    product = product.to(dtype)
    threads = range(max(THREADS[device]))
    rows = [(torch.randn(width, width, device=device, dtype=dtype),) for _ in threads]
    tokens = [(torch.randint(0, 600, (1, 64), device=device),) for _ in threads]
    return {
        "short": ("MiniGPT, one sequence of 64 tokens: the host's work", gpt, tokens),
        "long": (f"two products of {width:,} by {width:,} and a GELU: the device's work", product, rows),
    }
