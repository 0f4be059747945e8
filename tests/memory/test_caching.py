"""The model of torch's caching allocator: its sizes, which block a request gets, what is joined, what may grow."""

import pytest

from compile_lab.memory.caching import CachingAllocator

MIB = 2**20


@pytest.mark.parametrize(("asked", "given", "segment"), [
    (1, 512, 2 * MIB),
    (MIB, MIB, 2 * MIB),
    (MIB + 1, MIB + 512, 20 * MIB),
    (10 * MIB, 10 * MIB, 10 * MIB),
    (21 * MIB, 22 * MIB, 22 * MIB),
])  # fmt: skip
def test_a_request_is_rounded_and_a_segment_is_as_large_as_torchs(asked, given, segment):
    allocator = CachingAllocator()
    allocator.allocate("a", asked)
    assert (allocator.allocated_nbytes, allocator.reserved_nbytes) == (given, segment)


def test_the_smallest_block_that_fits_is_taken_and_neighbours_are_joined():
    allocator = CachingAllocator()
    for owner, size in (("a", 4), ("b", 8), ("c", 4)):
        allocator.allocate(owner, size * MIB)
    assert allocator.reserved_nbytes == 20 * MIB
    allocator.free("a")
    allocator.free("c")
    allocator.allocate("d", 4 * MIB)
    free = [(block.start, block.nbytes) for block in allocator.segments[0].blocks if block.owner is None]
    assert free == [(12 * MIB, 8 * MIB)], "c's and the rest behind it are one; d has a's"
    allocator.free("b")
    allocator.allocate("e", 16 * MIB)
    assert allocator.reserved_nbytes == 20 * MIB, "b's, and what lies behind it, are one block of 16 MiB"


def test_growing_requests_each_need_a_new_segment_unless_segments_grow():
    for expandable, reserved in ((False, 12 + 14 + 16 + 18), (True, 20)):
        allocator = CachingAllocator(expandable)
        for size in (12, 14, 16, 18):
            allocator.allocate("one", size * MIB)
            allocator.free("one")
        assert (allocator.allocated_nbytes, allocator.reserved_nbytes) == (0, reserved * MIB)
