"""Exercises of chapter 05, from Triton to PTX."""

from compile_lab.virtual_gpu.chips import CHIPS
from compile_lab.virtual_gpu.warps import occupancy

from ..exercises.judging import exercise


@exercise("05.1", takes=int, expects="a whole number of warps")
def predicted_warps(answer: int) -> str | None:
    """Warps of a kernel with 72 registers a thread and 8 warps a block."""
    held = occupancy(CHIPS["H200"], registers=72, shared_bytes=0, num_warps=8)
    if answer == held.warps:
        return None
    if answer % 8:
        return f"{answer} warps are no whole number of blocks."
    return "there is room for more." if answer < held.warps else "there are not registers for so many."
