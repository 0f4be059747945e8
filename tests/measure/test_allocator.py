"""The GPU's allocator over a block: by a count of its own here, by torch's where there is a GPU."""

import pytest
import torch

from compile_lab.measure import allocator
from compile_lab.measure.allocator import PeakMemory, peak

MIB = 2**20


@pytest.fixture
def counting(monkeypatch):
    """A stand-in for torch.cuda's counts: ``give(nbytes)`` allocates, and every question that is asked is noted."""
    counts, asked = {"now": 5 * MIB, "most": 90 * MIB, "reserved": 128 * MIB}, []

    def give(nbytes):
        counts["now"] += nbytes
        counts["most"] = max(counts["most"], counts["now"])

    def noted(name, answer):
        def call():
            asked.append(name)
            return answer()

        monkeypatch.setattr(allocator.torch.cuda, name, call)

    noted("synchronize", lambda: None)
    noted("reset_peak_memory_stats", lambda: counts.update(most=counts["now"]))
    noted("memory_allocated", lambda: counts["now"])
    noted("max_memory_allocated", lambda: counts["most"])
    noted("max_memory_reserved", lambda: counts["reserved"])
    return give, asked


def test_the_peak_is_counted_from_the_block_on_and_the_gpu_waited_for(counting):
    give, asked = counting
    with peak("cuda") as memory:
        assert asked == ["synchronize", "reset_peak_memory_stats", "memory_allocated"] and memory == PeakMemory()
        give(30 * MIB), give(-28 * MIB)
    assert asked[3] == "synchronize"
    assert memory == PeakMemory(5 * MIB, 35 * MIB, 7 * MIB, 128 * MIB)
    assert memory.rise_nbytes == 30 * MIB and memory.held_nbytes == 2 * MIB


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_on_a_gpu_a_tensors_bytes_are_counted():
    kept = torch.empty(MIB, dtype=torch.uint8, device="cuda")
    with peak("cuda") as memory:
        temporary = torch.empty(8 * MIB, dtype=torch.uint8, device="cuda")
        del temporary
        left = torch.empty(2 * MIB, dtype=torch.uint8, device="cuda")
    assert memory.rise_nbytes == 8 * MIB and memory.held_nbytes == left.nbytes
    assert memory.before_nbytes >= kept.nbytes and memory.reserved_nbytes >= memory.peak_nbytes
    with peak("cuda") as again:
        pass
    assert again.rise_nbytes == 0 and again.peak_nbytes == memory.after_nbytes
