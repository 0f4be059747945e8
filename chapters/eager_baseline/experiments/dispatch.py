"""What does a dispatch cost, and who waits for whom: the GPU for Python, or Python for the GPU?

Two measurements, on a GPU or a CPU: single operations on a tensor of one element, where all the time is overhead, and
one model at growing batches, where the time of the kernels grows and the overhead does not.
"""

import functools
from collections import defaultdict
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch

from compile_lab.eager import dispatch
from compile_lab.measure.timing import one_thread, samples_us, summary_us
from compile_lab.measure.trace import Trace, TraceEvent, profiled

from ...registry import Progress
from ...shared import subjects

Inputs = Callable[[int], tuple[torch.Tensor, torch.Tensor]]

BATCHES = {"cuda": tuple(2**k for k in range(13)), "cpu": (1, 8)}
TRAINING_UP_TO = 512  # sequences: what the backward of more keeps does not fit a card of 16 GB
PROFILED = 5  # calls under the profiler
SAMPLES = {"cuda": 25, "cpu": 9}


def op_costs(device: str, progress: Progress = iter, samples: int | None = None) -> list[dict[str, Any]]:
    """Time per call of operations on tensors of one element: nothing but overhead.

    One row for each operation and mode: ``op``, ``mode`` ("grad": one input requires grad; "no_grad",
    "inference_mode"), ``kernel`` (whether the operation computes anything), and microseconds a call, ``median_us``
    with quartiles ``low_us`` and ``high_us`` of 25 ``samples`` (9 on a CPU). The row "empty function" is what Python's
    own call costs. ``device`` is "cuda" or "cpu". Under 10 s.
    """
    x, y, out = (torch.ones(1, device=device) for _ in range(3))
    w = torch.ones(1, device=device, requires_grad=True)
    aten_add = torch.ops.aten.add.Tensor
    computes: dict[str, Callable[[torch.Tensor], Any]] = {
        "x + y": lambda x: x + y,
        "torch.add(x, y)": lambda x: torch.add(x, y),
        "torch.ops.aten.add.Tensor(x, y)": lambda x: aten_add(x, y),
    }
    without_grad: dict[str, Callable[[torch.Tensor], Any]] = {
        "torch.add(x, y, out=out)": lambda x: torch.add(x, y, out=out),
        "x.add_(y)": lambda x: x.add_(y),
    }
    moves_nothing: dict[str, Callable[[torch.Tensor], Any]] = {
        "x.view(1)": lambda x: x.view(1),
        "torch.empty_like(x)": lambda x: torch.empty_like(x),
    }
    steps = [("empty function", lambda x: None, False, "no_grad")]
    for kernel, group in ((True, computes), (False, moves_nothing)):
        steps += [(op, call, kernel, mode) for op, call in group.items() for mode in _MODES]
    steps += [(op, call, True, mode) for op, call in without_grad.items() for mode in ("no_grad", "inference_mode")]
    rows = []
    for op, call, kernel, mode in progress(steps):
        tensor = w if mode == "grad" else x
        with _MODES[mode]():
            times = quartiles_us(functools.partial(call, tensor), device, samples=samples)
        rows.append({"op": op, "mode": mode, "kernel": kernel, **times})
    return rows


_MODES: dict[str, Callable[[], Any]] = {
    "grad": nullcontext,
    "no_grad": torch.no_grad,
    "inference_mode": torch.inference_mode,
}


def batch_costs(
    model: torch.nn.Module, inputs: Inputs, progress: Progress = iter, samples: int | None = None
) -> list[dict[str, Any]]:
    """Time of an eager forward and of a forward with backward, at growing batches, on the model's device.

    ``model(tokens, targets)`` gives a loss, ``model(tokens)`` the prediction; ``inputs(batch)`` makes both.
    One row for each ``pass`` ("forward", under no_grad; "training", forward and backward) and ``batch``:

    - ``wall``: microseconds a call when many follow one another, ``median_us``, ``low_us``, ``high_us`` (quartiles);
    - ``issue``: the same for what Python needs to issue one call to an idle device, without waiting for the result;
    - ``kernels``, ``kernels_us``: how many kernels one call runs on the GPU, and the sum of their own times, by the
      profiler; None on a CPU, which runs them inside ``issue``.

    Raises RuntimeError where the profiler sees no kernel on a GPU.
    """
    device = next(model.parameters()).device.type
    steps = [("forward", batch) for batch in BATCHES[device]]
    steps += [("training", batch) for batch in BATCHES[device] if batch <= TRAINING_UP_TO]
    rows = []
    for name, batch in progress(steps):
        tokens, targets = inputs(batch)
        call = _forward(model, tokens) if name == "forward" else _training(model, tokens, targets)
        wall, issue = (quartiles_us(call, device, from_idle, samples) for from_idle in (False, True))
        kernels, kernels_us = _kernels(call) if device == "cuda" else (None, None)
        row = {"pass": name, "batch": batch, "wall": wall, "issue": issue}
        rows.append({**row, "kernels": kernels, "kernels_us": kernels_us})
    return rows


def _forward(model: torch.nn.Module, tokens: torch.Tensor) -> Callable[[], Any]:
    def call() -> None:
        with torch.no_grad():
            model(tokens)

    return call


def _training(model: torch.nn.Module, tokens: torch.Tensor, targets: torch.Tensor) -> Callable[[], Any]:
    def call() -> None:
        model.zero_grad(set_to_none=True)
        model(tokens, targets).backward()

    return call


def quartiles_us(
    call: Callable[[], Any], device: str, from_idle: bool = False, samples: int | None = None
) -> dict[str, float]:
    """Microseconds of one ``call``: the median and quartiles of 25 ``samples`` (9 on a CPU), each of about 10 ms.

    A CPU computes on one core: on small tensors, sharing the work out takes longer than the work. ``from_idle`` as in
    `timing.samples_us`.
    """
    with one_thread():
        return summary_us(samples_us(call, device, samples or SAMPLES[device], from_idle))


def launches(call: Callable[[], Any]) -> list[dict[str, Any]]:
    """Which operators launch kernels on the GPU: one row an operator, as torch's profiler ties kernels to operators.

    ``op``; ``calls`` of it that launch anything; ``kernels`` they launch; ``kernels_us``, microseconds of those. For
    one ``call``, averaged over five; the most frequent first. Needs a GPU; on a machine without one the list is empty.
    """
    return launches_in(_profiled(call), PROFILED) if torch.cuda.is_available() else []


def launches_in(trace: Trace, calls: int) -> list[dict[str, Any]]:
    """The rows of `launches`, from a trace of so many calls. Copies and fills count as kernels."""
    launched: dict[TraceEvent, list[float]] = defaultdict(list)
    for work in trace.of("kernel", "gpu_memcpy", "gpu_memset"):
        operator = trace.operator_of(work)
        if operator is not None and operator.name.startswith("aten::"):
            launched[operator].append(work.duration_us)
    rows: dict[str, list[float]] = {}
    for operator, durations_us in launched.items():
        row = rows.setdefault(operator.name, [0, 0, 0])
        row[0] += 1
        row[1] += len(durations_us)
        row[2] += sum(durations_us)
    names = ("calls", "kernels", "kernels_us")
    averages = {op: [round(value / calls, 2) for value in row] for op, row in rows.items()}
    by_operator = [{"op": op, **dict(zip(names, row, strict=True))} for op, row in averages.items()]
    return sorted(by_operator, key=lambda row: (-row["kernels"], row["op"]))


def _kernels(call: Callable[[], Any]) -> tuple[float, float]:
    """How many kernels one call runs on the GPU, and the microseconds that they take together."""
    kernels = _profiled(call).kernels
    if not kernels:
        raise RuntimeError("the profiler saw no kernel on this GPU: without them nothing can be said of its idle time")
    return round(len(kernels) / PROFILED, 2), round(sum(each.duration_us for each in kernels) / PROFILED, 2)


def _profiled(call: Callable[[], Any]) -> Trace:
    call()
    return profiled(call, calls=PROFILED)


def record(
    device: str, progress: Progress = iter, *, length: int | None = None, samples: int | None = None
) -> dict[str, Any]:
    """Dispatches of MiniGPT, as plain JSON values: ``ops`` (`op_costs`), ``batches`` (`batch_costs`), of the batch 8:

    ``counts``: for "forward" and "training" the numbers of `DispatchLog.counts`; ``launches``: for both what
    `launches` gives. Also ``parameters`` and ``tokens`` a sequence: ``length``, or the model's context. About half a
    minute on a GPU.
    """
    model = subjects.minigpt(device=device)

    def inputs(batch: int) -> tuple[torch.Tensor, torch.Tensor]:
        return subjects.tokens(model, batch, length)

    tokens, targets = inputs(8)
    calls = {"forward": _forward(model, tokens), "training": _training(model, tokens, targets)}
    with torch.no_grad():
        forward = dispatch.log(model, tokens).counts()
    return {
        "parameters": sum(one.numel() for one in model.parameters()),
        "tokens": tokens.shape[1],
        "counts": {"forward": forward, "training": dispatch.log(model, tokens, targets, backward=True).counts()},
        "launches": {name: launches(call) for name, call in calls.items()},
        "ops": op_costs(device, progress, samples),
        "batches": batch_costs(model, inputs, progress, samples),
    }
