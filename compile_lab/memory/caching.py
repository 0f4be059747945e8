"""What a caching allocator reserves for what it is asked: the rules of torch's CUDA allocator, in plain Python.

It asks the device for *segments*, cuts *blocks* from them, and keeps what is freed for later. What it has asked for is
*reserved*, what tensors use is *allocated*, and between the two lies what no request fits into.
"""

import copy
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ..doors import check_whole, door
from .ledger import Lifetimes

KIB, MIB = 2**10, 2**20
SMALLEST, SMALL, SMALL_SEGMENT, LARGE_SEGMENT, ALONE, ROUND = 512, MIB, 2 * MIB, 20 * MIB, 10 * MIB, 2 * MIB
"""A block's unit; up to where a request is small; segments of both pools; from where a segment is for one, rounded."""


@dataclass
class Block:
    """A piece of a segment; free where no request has it."""

    start: int
    nbytes: int
    owner: object | None = None


@dataclass
class Segment:
    """What the device gave at once: blocks from its start to its end, none of them missing."""

    small: bool
    nbytes: int
    blocks: list[Block] = field(default_factory=list)


@door
class CachingAllocator:
    """Requests are rounded to 512 bytes and get the smallest free block that fits, else a new segment.

    Up to 1 MiB they come from segments of 2 MiB, up to 10 MiB from segments of 20 MiB, and above they get one of their
    own, rounded to 2 MiB. What remains of a block is cut off if it is worth it (512 bytes of a small, more than 1 MiB
    of a large one); freed neighbours are joined. Nothing is given back to the device. ``expandable``: each pool has one
    segment that grows at its end, as with ``PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True``.

    >>> from compile_lab.memory.caching import CachingAllocator
    >>> allocator = CachingAllocator()
    >>> allocator.allocate("activations", 3_000_000)
    >>> allocator.allocated_nbytes, allocator.reserved_nbytes
    (3000320, 20971520)
    """

    def __init__(self, expandable: bool = False) -> None:
        self.expandable = expandable
        self.segments: list[Segment] = []
        self._having: dict[object, tuple[Segment, Block]] = {}

    @property
    def reserved_nbytes(self) -> int:
        return sum(segment.nbytes for segment in self.segments)

    @property
    def allocated_nbytes(self) -> int:
        return sum(block.nbytes for _, block in self._having.values())

    def allocate(self, owner: object, nbytes: int) -> None:
        """Raises ValueError for an owner that has memory already, or for less than 1 byte."""
        check_whole("nbytes", nbytes)
        if owner in self._having:
            raise ValueError(f"{owner!r} has a block already: free it first")
        size = -(-nbytes // SMALLEST) * SMALLEST
        small = size <= SMALL
        fitting = [
            (block.nbytes, at, block.start, segment, block)
            for at, segment in enumerate(self.segments)
            if segment.small is small
            for block in segment.blocks
            if block.owner is None and block.nbytes >= size
        ]
        *_, segment, block = min(fitting) if fitting else (None, *self._new(small, size))
        rest = block.nbytes - size
        if rest >= SMALLEST if small or self.expandable else rest > SMALL:
            segment.blocks.insert(segment.blocks.index(block) + 1, Block(block.start + size, rest))
            block.nbytes = size
        block.owner = owner
        self._having[owner] = segment, block

    def _new(self, small: bool, size: int) -> tuple[Segment, Block]:
        if not self.expandable:
            fresh = SMALL_SEGMENT if small else LARGE_SEGMENT if size < ALONE else -(-size // ROUND) * ROUND
            segment = Segment(small, fresh, [Block(0, fresh)])
            self.segments.append(segment)
            return segment, segment.blocks[0]
        known = [each for each in self.segments if each.small is small]
        if not known:
            known = [Segment(small, 0)]
            self.segments += known
        segment = known[0]
        if not segment.blocks or segment.blocks[-1].owner is not None:
            segment.blocks.append(Block(segment.nbytes, 0))
        last, page = segment.blocks[-1], SMALL_SEGMENT if small else LARGE_SEGMENT
        more = -(-(size - last.nbytes) // page) * page
        last.nbytes += more
        segment.nbytes += more
        return segment, last

    def free(self, owner: object) -> None:
        """KeyError for an owner that has nothing."""
        segment, block = self._having.pop(owner)
        block.owner = None
        at = segment.blocks.index(block)
        for left in (at, at - 1):
            if 0 <= left < len(segment.blocks) - 1 and all(b.owner is None for b in segment.blocks[left : left + 2]):
                segment.blocks[left].nbytes += segment.blocks.pop(left + 1).nbytes


Request = tuple[object, int | None]
"""Who asks for how many bytes; None: lets go of them."""


@door
def requests(steps: Iterable[Lifetimes]) -> list[list[Request]]:
    """For each step its requests in order. What a step leaves goes when the next begins, as ``zero_grad`` has it.

    >>> import torch
    >>> from compile_lab.memory import eager_lifetimes
    >>> from compile_lab.memory.caching import requests
    >>> requests([eager_lifetimes(lambda: torch.ones(100).exp().sum())])
    [[((0, 0), 400), ((0, 1), 400), ((0, 0), None), ((0, 2), 4), ((0, 1), None)]]
    """
    asked: list[list[Request]] = []
    left: list[Request] = []
    for number, step in enumerate(steps):
        own = [((number, at), each) for at, each in enumerate(step.tensors) if not each.is_resident and each.nbytes]
        mine = left
        for at in range(len(step.timeline)):
            mine += [(owner, each.nbytes) for owner, each in own if each.birth == at]
            mine += [(owner, None) for owner, each in own if each.death == at]
        left = [(owner, None) for owner, each in own if each.death >= len(step.timeline)]
        asked.append(mine)
    return asked


@dataclass(frozen=True)
class Reserved:
    """One step in the cache: the most that is allocated in it, and what is reserved when it is over."""

    allocated_nbytes: int
    reserved_nbytes: int


@door
def replay(requests: Sequence[Sequence[Request]], expandable: bool = False) -> tuple[list[Reserved], CachingAllocator]:
    """Steps of requests through one allocator: its figures for each, and the allocator at the last step's peak.

    >>> from compile_lab.memory.caching import replay
    >>> steps = [[("a", 15_000_000), ("a", None), ("b", 20_000_000)]]
    >>> [replay(steps, expandable)[0][0].reserved_nbytes for expandable in (False, True)]
    [37748736, 20971520]
    """
    allocator, figures = CachingAllocator(expandable), []
    at_peak = allocator
    for step in requests:
        most = 0
        for owner, nbytes in step:
            if nbytes is None:
                allocator.free(owner)
                continue
            allocator.allocate(owner, nbytes)
            if allocator.allocated_nbytes > most:
                most = allocator.allocated_nbytes
                at_peak = copy.deepcopy(allocator) if step is requests[-1] else allocator
        figures.append(Reserved(most, allocator.reserved_nbytes))
    return figures, at_peak
