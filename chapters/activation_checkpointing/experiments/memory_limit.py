"""Does a training step fit? Run in a child process that the operating system gives no more memory than it may take."""

import ctypes
import json
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from compile_lab.doors import check_whole, door, shown
from compile_lab.source import PACKAGE

SECONDS = 300
PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Limited:
    """A step under a memory budget, without a limit and with one."""

    budget: float
    predicted_peak_nbytes: int
    limit_nbytes: int
    """What the process might take above what it had."""
    loss: float
    """Without the limit."""
    loss_under_limit: float | None
    """None if the step did not fit."""
    error: str
    """What torch said then."""


def available() -> bool:
    """True on Linux, where the limit on a process's data is one on all the memory that it writes to."""
    return sys.platform == "linux"


@door
def steps_under_limit(
    layers: int = 4, dim: int = 64, rows: int = 8_192, budgets: tuple[float, ...] = (1.0, 0.1)
) -> tuple[Limited, ...]:
    """A step of ``subjects.deep_mlp`` under each budget, where the limit lies between the least and the largest peak.

    The steps run the partitioned graphs in a child process under ``RLIMIT_DATA``. Raises RuntimeError on systems that
    have no such limit, and with what the child said if it came to an error of its own; ValueError for a size below 1
    and a budget that is not from 0 to 1.
    """
    for name, size in {"layers": layers, "dim": dim, "rows": rows}.items():
        check_whole(name, size)
    if not budgets or not all(0 <= each <= 1 for each in budgets):
        raise ValueError(f"budgets is {shown(budgets)}; it must hold shares of the activations, each from 0 to 1")
    if not available():
        raise RuntimeError(f"a limit on a process's memory needs Linux, and this is {sys.platform}")
    asked = json.dumps({"layers": layers, "dim": dim, "rows": rows, "budgets": budgets, "caller": os.getpid()})
    # Without the threshold malloc keeps freed tensors for later, and memory that is kept passes under the limit.
    environment = {
        **os.environ,
        "MALLOC_MMAP_THRESHOLD_": "65536",
        "PYTHONPATH": os.pathsep.join([str(PACKAGE.parent), os.environ.get("PYTHONPATH", "")]),
    }
    ran = subprocess.run(
        [sys.executable, "-m", "chapters.activation_checkpointing.experiments.memory_limit", asked],
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    if ran.returncode:
        raise RuntimeError(f"the child process ended with {ran.returncode}: {ran.stderr.strip()[-400:]}")
    return tuple(Limited(**each) for each in json.loads(ran.stdout.splitlines()[-1]))


def _measured(layers: int, dim: int, rows: int, budgets: list[float], caller: int) -> list[Limited]:
    _end_with(caller)
    from compile_lab.checkpointing.plan import plans
    from compile_lab.memory.predict import lifetimes

    from ...shared import subjects

    torch.set_num_threads(1)
    model, x = subjects.deep_mlp(layers, dim), subjects.rows(rows, dim)
    found = plans(model, x, budgets=budgets)

    def step(plan: Callable[[], torch.Tensor]) -> float:
        model.zero_grad(set_to_none=True)
        loss = plan()
        loss.backward()
        return loss.item()

    peaks = [lifetimes(plan.graphs).peak_nbytes for plan in found]
    limit = (min(peaks) + max(peaks)) // 2
    free = [step(plan.step) for plan in found]
    rows_ = []
    for plan, peak, loss in zip(found, peaks, free, strict=True):
        model.zero_grad(set_to_none=True)
        under, error = _limited(lambda plan=plan: step(plan.step), limit)
        rows_.append(Limited(plan.budget, peak, limit, loss, under, error))
    return rows_


def _end_with(caller: int) -> None:
    """Even a caller that is killed leaves no child behind: Linux then ends this process."""
    if ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL):
        raise RuntimeError("Linux was not asked to end this process with its caller")
    if os.getppid() != caller:  # it was gone before it could be said
        os._exit(1)


def _limited(step: Callable[[], float], nbytes: int) -> tuple[float | None, str]:
    import resource

    before = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (_data_nbytes() + nbytes, before[1]))
    try:
        return step(), ""
    except RuntimeError as error:
        said = str(error)
        traceback.clear_frames(error.__traceback__)  # they hold the activations
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)
    return None, said[said.find("DefaultCPUAllocator") :].split(". Error")[0]


def _data_nbytes() -> int:
    """What the limit is on: the process's private writable memory."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmData"))


if __name__ == "__main__":
    print(json.dumps([asdict(each) for each in _measured(**json.loads(sys.argv[1]))]))
