"""torch's own way to ask which part of the compiler makes a result differ: its bisector, put in words.

It runs the same check with more and more of the compiler, then takes one pass or decomposition after the other away,
or switches an option, until the check holds. It names a part of the compiler; `bisect` names a line of the reader's.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from compile_lab._torch.dynamo import reset_dynamo
from compile_lab._torch.inductor import bisect_compiler
from compile_lab.doors import door


@dataclass(frozen=True)
class CompilerPart:
    """What torch's bisector blames: a backend ("aot_eager", "inductor", …), a part of it, and the last thing it did."""

    backend: str
    part: str
    last: str
    said: tuple[str, ...]
    """Its own account, a line each."""

    def __str__(self) -> str:
        return " → ".join(each for each in (self.backend, self.part, self.last) if each)


@door
def guilty_part(fn: Callable[..., Any], *args: Any, seed: int = 0) -> CompilerPart | None:
    """The part of the compiler without which ``fn(*args)``, a tensor, is bitwise what eager gives; None if it is.

    Every trial compiles anew, so a small function takes half a minute on a CPU. Random numbers start from ``seed``.
    """

    def seeded(run: Callable[..., Any]) -> Any:
        torch.manual_seed(seed)
        with torch.no_grad():
            return run(*(each.clone() if isinstance(each, torch.Tensor) else each for each in args))

    eager = seeded(fn)

    def works() -> bool:
        reset_dynamo()
        return bool(torch.equal(seeded(torch.compile(fn)), eager))

    told = io.StringIO()
    try:
        if works():
            return None
        with contextlib.redirect_stdout(told):
            found = bisect_compiler(works)
    finally:
        reset_dynamo()
    if found is None:
        return None
    lines = tuple(line for line in told.getvalue().splitlines() if line.strip())
    return CompilerPart(found.backend, found.subsystem or "", str(found.debug_info or ""), lines)
