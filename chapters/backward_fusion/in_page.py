"""Exercises of chapter 07, backward fusion."""

import math
from collections.abc import Callable

from ..exercises.judging import exercise


@exercise("07.1", takes=Callable)
def moved(answer: Callable) -> str | None:
    """moved(rows, d, itemsize): bytes that the backward of LayerNorm(GELU(h)) moves, (eager, fused)."""
    for rows, d, itemsize in ((16384, 4096, 2), (100, 10, 4)):
        got = answer(rows, d, itemsize)
        if not isinstance(got, tuple) or len(got) != 2:
            return f"it returns {got!r}: return two numbers, eager's and the fused kernel's."
        one = rows * d * itemsize
        eager, fused = (each / one for each in got)
        if math.isclose(eager * itemsize, 6) and itemsize != 1:
            return "those are elements, not bytes."
        if not math.isclose(eager, 6):
            return f"eager's two operators do not move {eager:g} matrices: what does each read, and write?"
        if not math.isclose(fused, 3):
            return f"one kernel for both does not move {fused:g} matrices: which of eager's need not be in memory?"
    return None


@exercise("07.2", takes=Callable)
def at_most(answer: Callable) -> str | None:
    """at_most(backward_us, matmuls_us, factor): the speed-up if all but the matmuls gets so many times faster."""
    for backward, matmuls, factor in ((800.0, 400.0, 2.0), (900.0, 810.0, 3.0), (50.0, 0.0, 2.0), (50.0, 50.0, 2.0)):
        got = answer(backward, matmuls, factor)
        if math.isclose(got, backward / (matmuls + (backward - matmuls) / factor), rel_tol=1e-6):
            continue
        if math.isclose(got, factor):
            return f"of {backward:g} µs, {matmuls:g} are matmuls, which take as long as before."
        return f"for {backward:g} µs, {matmuls:g} of them matmuls, and a factor of {factor:g} it says {got:g}."
    return None
