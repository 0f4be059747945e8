"""How much of a GPU's memory does a block of code take? As torch's allocator counts it."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

import torch


@dataclass
class PeakMemory:
    """Bytes that the GPU's allocator has given out: before a block, at most, when it was done; and what it held of the
    GPU at most. All are None on a CPU, whose allocator keeps no count, and until the block is done."""

    before_nbytes: int | None = None
    peak_nbytes: int | None = None
    after_nbytes: int | None = None
    reserved_nbytes: int | None = None

    @property
    def rise_nbytes(self) -> int | None:
        """The peak above what was there before."""
        before, peak = self.before_nbytes, self.peak_nbytes
        return None if before is None or peak is None else peak - before

    @property
    def held_nbytes(self) -> int | None:
        """What the block left, above what was there before."""
        before, after = self.before_nbytes, self.after_nbytes
        return None if before is None or after is None else after - before


@contextlib.contextmanager
def peak(device: str) -> Iterator[PeakMemory]:
    """What the block takes of the current GPU if the device is "cuda". The GPU is waited for before and after.

    One block at a time: an inner one would begin the count of an outer one anew.
    """
    memory = PeakMemory()
    if device != "cuda":
        yield memory
        return
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    yield memory
    torch.cuda.synchronize()
    memory.before_nbytes = before
    memory.peak_nbytes, memory.after_nbytes = torch.cuda.max_memory_allocated(), torch.cuda.memory_allocated()
    memory.reserved_nbytes = torch.cuda.max_memory_reserved()
