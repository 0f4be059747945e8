"""One rank of ``ranks.run``: the process in which the function runs. Not for readers; ``ranks`` starts it.

All that a rank has to say it leaves in the run's folder, under its number: what it printed (``stdout``, ``stderr``),
what its function returned (``value``) or how it failed (``failure``), where it was when it was asked (``stack``) and
where it was when a signal ended it (``crash``).
"""

import datetime
import faulthandler
import json
import os
import pickle
import signal
import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from .._torch.distributed import one_gloo_thread
from .._torch.inductor import inductor_config
from ..measure.child import end_with_the_caller
from ..pickling import dumps


@dataclass(frozen=True)
class Run:
    """What the ranks of one run share."""

    folder: Path
    ranks: int
    backend: str
    timeout_s: float
    environment: dict[str, str]
    patience_s: float | None = None
    """The group's own time-out, in seconds; None: longer than the run's."""

    def file(self, what: str, rank: int) -> Path:
        return self.folder / f"{what}.{rank}"


def main(run: Run, rank: int) -> None:
    """Join the process group, call the function, leave the result. Never returns."""
    os.setsid()  # so that a signal for this group ends what the function starts, too, and the caller's Ctrl-C does not
    end_with_the_caller()
    os.environ |= run.environment | {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(run.ranks)}
    _redirect(run, rank)
    status = 0
    try:
        value = _call(run, rank)
        _leave(run.file("value", rank), value)
    except BaseException as error:
        run.file("failure", rank).write_text(json.dumps(_failure(error)))
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # threads of a group that lost a rank never end


def _call(run: Run, rank: int) -> Any:
    torch.set_num_threads(1)
    inductor_config.compile_threads = 1  # no pool of compiling processes for each rank
    dist.set_debug_level_from_env()  # the server read it when it imported torch
    device = None
    if run.backend == "nccl":
        device = torch.device("cuda", rank)
        torch.cuda.set_device(device)
    store = dist.FileStore(str(run.folder / "store"), run.ranks)  # a file, so no port that could be taken
    # The caller's time limit comes first: it knows what every rank was doing then.
    limit = datetime.timedelta(seconds=run.timeout_s + 60)

    def meet(where: str) -> None:
        store.set(f"rank {rank} is {where}", "")
        store.wait([f"rank {other} is {where}" for other in range(run.ranks)], limit)

    meet("here")  # a short patience begins together
    patience = datetime.timedelta(seconds=run.patience_s) if run.patience_s else limit
    one_gloo_thread()  # two free the same block, now and then, and the rank dies of it
    dist.init_process_group(
        run.backend, store=store, rank=rank, world_size=run.ranks, timeout=patience, device_id=device
    )
    meet("connected")  # one whose function needs nobody may end at once: to others that still connect it would be lost
    function, args, kwargs = pickle.loads((run.folder / "job").read_bytes())
    if getattr(function, "__module__", None) == "__main__":  # where Dynamo's guards look up a notebook's globals
        vars(sys.modules["__main__"]).update(function.__globals__)
    value = function(*args, **kwargs)
    dist.destroy_process_group()
    return value


def _leave(file: Path, value: Any) -> None:
    try:
        packed = dumps(value)
    except Exception as error:
        raise TypeError(
            f"what the function returned, {type(value).__name__}, cannot be sent to the caller ({error}); return plain "
            "tensors, numbers and containers of them"
        ) from error
    file.write_bytes(packed)


def _failure(error: BaseException) -> dict[str, Any]:
    """The time, the exception, and its frames outermost first, of the function alone."""
    frames = [
        (frame.filename, frame.lineno, frame.name)
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename != __file__
    ]
    message = "".join(traceback.format_exception_only(error)).strip()
    return {"at": time.time(), "message": message, "frames": frames}


def _redirect(run: Run, rank: int) -> None:
    for descriptor, name in ((1, "stdout"), (2, "stderr")):
        file = os.open(run.file(name, rank), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(file, descriptor)  # of the process, so that what C++ prints goes there, too
        stream = os.fdopen(descriptor, "w", buffering=1, closefd=False, encoding="utf-8", errors="replace")
        setattr(sys, name, stream)
    faulthandler.register(signal.SIGUSR1, run.file("stack", rank).open("w"), all_threads=False)
    faulthandler.enable(run.file("crash", rank).open("w"))  # SIGABRT, SIGSEGV, …: C++ ends a rank without an exception
