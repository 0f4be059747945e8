"""The other side of `package`: a process that goes one way to a first answer, or asks a package many things.

python -m chapters.inference.start WAY GIVEN PACKAGE              what it took, as JSON
python -m chapters.inference.start checks GIVEN PACKAGE CASE …    a line of JSON a case: its name, what came of it
"""

import json
import sys
import time
from collections.abc import Callable, Sequence

import cloudpickle
import torch

from compile_lab._torch.packages import unpacked

CALLS = 20


def main(arguments: Sequence[str]) -> None:
    way, given, file, *cases = arguments
    torch.set_num_threads(1)
    with open(given, "rb") as handle:  # noqa: PTH123
        model, args = cloudpickle.load(handle)
    if way == "checks":
        for what in cases:
            print(json.dumps([what, _outcome(model, args[what], file)]), flush=True)
    else:
        print(json.dumps(_timed(_made(way, model, file), args)))


def _made(way: str, model: torch.nn.Module, file: str) -> Callable[[], Callable]:
    ways = {
        "eager": lambda: model,
        "compiled": lambda: torch.compile(model, dynamic=True),
        "package": lambda: unpacked(file, tried=False),
    }
    return ways[way]


def _timed(make: Callable[[], Callable], args: Sequence[torch.Tensor]) -> dict[str, float]:
    with torch.no_grad():
        start = time.perf_counter()
        call = make()
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
