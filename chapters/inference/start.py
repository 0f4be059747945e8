"""The other side of `package`: a process that loads one for a first answer, or asks packages many things.

python -m chapters.inference.start GIVEN PACKAGE        what it took, as JSON
python -m chapters.inference.start asks                 for each line of JSON on stdin a fork, and a line that says how
                                                        it ended: what it said, its status, its last words
"""

import json
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import cloudpickle
import torch

from compile_lab._torch.packages import loader, probe_cpu, unpacked

CALLS = 20


def main(arguments: Sequence[str]) -> None:
    if [*arguments] == ["asks"]:
        _answer_all()
        return
    given, file = arguments
    torch.set_num_threads(1)
    print(json.dumps(_timed(file, _read(given))))


def _read(given: str) -> Any:
    with open(given, "rb") as handle:  # noqa: PTH123
        return cloudpickle.load(handle)


def _answer_all() -> None:
    """Until stdin ends, as it does with the process that asks. A package that ends its process ends a fork."""
    loader()
    probe_cpu()  # like the loader once, for all forks
    for line in sys.stdin:
        with tempfile.TemporaryFile("w+") as said, tempfile.TemporaryFile("w+") as told:
            if not (pid := os.fork()):
                os.dup2(said.fileno(), 1), os.dup2(told.fileno(), 2)
                question = json.loads(line)
                _end_after(_run if "code" in question else _answer, question)
            _, status = os.waitpid(pid, 0)
            said.seek(0), told.seek(0)
            ended = {"said": said.read(), "told": told.read(), "status": os.waitstatus_to_exitcode(status)}
        print(json.dumps(ended), flush=True)


def _end_after(do: Callable[..., None], question: Mapping[str, Any]) -> NoReturn:
    status = 1
    try:
        do(**question)
        status = 0
    except Exception:  # for the process that asks
        traceback.print_exc()
    finally:
        sys.stdout.flush(), sys.stderr.flush()
        os._exit(status)


def _run(code: str, arguments: Sequence[str]) -> None:
    sys.argv[1:] = arguments
    exec(code, {"__name__": "__main__"})


def _answer(given: str, file: str, check: str, cases: Sequence[str]) -> None:
    os.environ["AOTI_RUNTIME_CHECK_INPUTS"] = check
    torch.set_num_threads(1)
    model, args = _read(given)
    for what in cases:
        print(json.dumps([what, _outcome(model, args[what], file)]), flush=True)


def _timed(file: str, args: Sequence[torch.Tensor]) -> dict[str, float]:
    with torch.no_grad():
        start = time.perf_counter()
        call = unpacked(file, tried=False)
        call(*args)
        ready = time.perf_counter()
        for _ in range(CALLS):
            call(*args)
        return {"ready_s": ready - start, "call_us": (time.perf_counter() - ready) / CALLS * 1e6}


def _outcome(model: torch.nn.Module, args: Sequence[torch.Tensor], file: str) -> str:
    with torch.no_grad():
        try:
            wanted = model(*args)
        except Exception:  # whatever eager has against it
            wanted = None
        try:
            found = unpacked(file, tried=False)(*args)
        except Exception as error:  # whatever the package has against it
            return f"refused: {_reason(error)}"
    if wanted is None:
        return "an answer where eager refuses"
    near = found.shape == wanted.shape and torch.allclose(found, wanted, rtol=1e-4, atol=1e-5)
    return "equal to eager" if near else "wrong, without an error"


def _reason(error: Exception) -> str:
    """The message without the place in torch's C++ that raised it."""
    line = next(iter(str(error).strip().splitlines()), type(error).__name__)
    return line.partition(" API call failed at ")[0]


if __name__ == "__main__":
    main(sys.argv[1:])
