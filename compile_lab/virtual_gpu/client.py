"""What the parent says to a child, and what it makes of the answer."""

import linecache
import pickle
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from compile_lab.places import place
from compile_lab.virtual_gpu import server, travel
from compile_lab.virtual_gpu.chips import Chip
from compile_lab.virtual_gpu.chips import chip as chip_named
from compile_lab.virtual_gpu.errors import VirtualGPUError


def run(
    chip: str | Chip,
    function: Callable[..., Any],
    /,
    *args: Any,
    timeout_s: float = 600,
    config: Mapping[str, Any] | None = None,
    **kwargs: Any,
) -> Any:
    """``function(*args, **kwargs)`` in a child process that believes it has that chip ("H200", "H100", "A100", "T4").

    Tensors and modules arrive there on "cuda" as fake tensors: shape, stride, dtype, requires_grad and ties travel,
    values do not. ``torch.compile`` generates its Triton code and loads none of it; a compiled call returns fake
    tensors, so a backward or an optimizer step works too. ``config`` holds options of torch._inductor.config. The
    result comes back pickled; a tensor in it comes back on the "meta" device. What the function prints is printed here.
    No torch setting of this process travels, and none is changed.

    Raises ValueError for an unknown chip, TypeError for what cannot travel or a function that is none, and
    VirtualGPUError for everything that went wrong in the child: its exception, its death, ``timeout_s`` seconds over.
    """
    if not callable(function):
        raise TypeError(f"run needs a function to call, not {type(function).__name__}: {function!r:.60}")
    where = chip_named(chip)
    body = _packed((function, args, kwargs), values=False)
    answer = asked("generate", "run", where, body, timeout_s, config=dict(config or {}))
    return travel.loads(answer)


def asked(mode: server.Mode, work: str, chip: Chip, body: bytes, timeout_s: float, **more: Any) -> bytes:
    """Have a child do `work` with `body`: its answer, or its exception as a VirtualGPUError."""
    request = {"work": work, "chip": chip, "body": body, "folder": str(Path.cwd())}
    request |= {"path": sys.path, "sources": _sources()}
    reply = server.ask(mode, travel.dumps({**request, **more}, values=False), timeout_s)
    if reply.stdout:
        print(reply.stdout, end="")
    done, *told = server.unpickled(reply)
    if done == "done":
        return told[0]
    kind, message, traceback = told
    raise VirtualGPUError(f"{kind} on the {chip}: {_placed(message)}", kind, traceback)


def _packed(thing: Any, *, values: bool) -> bytes:
    try:
        return travel.dumps(thing, values=values)
    except (pickle.PicklingError, TypeError, ValueError) as error:
        raise TypeError(f"The function and its arguments must travel to another process, and cannot: {error}") from None


def _sources() -> dict[str, Any]:
    """The source of code that is in no file, such as a notebook's cells: Triton and tracebacks read it."""
    return {name: entry for name, entry in linecache.cache.items() if len(entry) == 4 and not Path(name).exists()}


def _placed(message: str) -> str:
    """An exception's own words, without torch's advice on its debug switches and without folders of this machine."""
    message = message.partition("\n\nSet TORCHDYNAMO_VERBOSE")[0].strip()
    return re.sub(r'File "([^"]+)", line (\d+)', lambda found: place(found[1], int(found[2])), message)
