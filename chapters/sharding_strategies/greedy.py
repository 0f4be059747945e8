"""Operator by operator against the best plan: what y = gelu(x @ a) @ b sends, over all of its layouts.

DTensor decides at each operator, by the price of moving its inputs. A plan decides once: where x, a and b go first, and
where what is between. Each is run, as it is, on imaginary GPUs, and its collectives are counted.
"""

import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch.distributed.tensor import DTensor, Shard, init_device_mesh

from compile_lab.devices.collectives import Program, counted, pretended
from compile_lab.devices.placements import placement
from compile_lab.doors import check_whole, door

SHAPES = {"x": (64, 128), "a": (128, 512), "b": (512, 128)}
WORDS = ("R", "S(0)", "S(1)")
LEAVE = ""


@door
@dataclass(frozen=True)
class ChainLayout:
    """One layout of x, a, b, with y as x is: bytes that a rank sends, by DTensor's choices and by the best plan.

    ``plan`` has where x, a and b are moved first, and where the middle is moved, "" for left as it is.

    >>> from chapters.sharding_strategies.greedy import ChainLayout
    >>> ChainLayout(("S(0)", "R", "R"), greedy_nbytes=98_304, best_nbytes=49_152, plan=("S(0)", "R", "R", "")).ratio
    2.0
    """

    layout: tuple[str, str, str]
    greedy_nbytes: int
    best_nbytes: int
    plan: tuple[str, str, str, str]

    @property
    def ratio(self) -> float:
        """How many times as much DTensor sends as is needed; 1 where neither sends."""
        if not self.best_nbytes:
            return 1.0 if not self.greedy_nbytes else float("inf")
        return self.greedy_nbytes / self.best_nbytes


@door
def greedy(devices: int = 4) -> tuple[ChainLayout, ...]:
    """All 27 layouts, each with the cheapest of 108 plans. A few seconds; nothing is started."""
    check_whole("devices", devices, 2, 64)
    with pretended(devices), torch.no_grad():
        chain = _Chain(devices)
        rows = []
        for layout in itertools.product(WORDS, repeat=3):
            plain = chain.sent(layout, (*layout, LEAVE))
            plans = itertools.product(WORDS, WORDS, WORDS, (LEAVE, *WORDS))
            best = min(plans, key=lambda plan, layout=layout: (chain.sent(layout, plan), plan != (*layout, LEAVE)))
            rows.append(ChainLayout(layout, plain, chain.sent(layout, best), best))
    return tuple(rows)


class _Chain:
    """What each step of the chain sends for placements of what goes in, each asked once of DTensor."""

    def __init__(self, devices: int) -> None:
        self._devices, self._mesh = devices, init_device_mesh("cuda", (devices,))
        self._moved = functools.cache(self._count_move)
        self._product = functools.cache(self._count_product)

    def sent(self, layout: Sequence[str], plan: Sequence[str]) -> int:
        """Bytes: x, a and b go from ``layout`` to ``plan``'s first three; then it runs; y goes where x was."""
        sizes = (SHAPES["x"], SHAPES["a"], SHAPES["b"])
        total = sum(self._moved(*each) for each in zip(sizes, layout, plan[:3], strict=True))
        nbytes, middle = self._product(sizes[0], plan[0], sizes[1], plan[1], True)
        total += nbytes
        between = (sizes[0][0], sizes[1][1])
        if plan[3]:
            total += self._moved(between, middle, plan[3])
            middle = plan[3]
        nbytes, out = self._product(between, middle, sizes[2], plan[2], False)
        return total + nbytes + self._moved((between[0], sizes[2][1]), out, layout[0])

    def _count_move(self, shape: tuple[int, int], word: str, to: str) -> int:
        x = self._placed(shape, word)
        return _sent(lambda: x.redistribute(placements=[placement(to)]))[0]

    def _count_product(self, a: tuple[int, int], at: str, b: tuple[int, int], other: str, bent: bool) -> Any:
        left, right = self._placed(a, at), self._placed(b, other)
        nbytes, made = _sent(lambda: F.gelu(left @ right) if bent else left @ right)
        return nbytes, str(made.placements[0])

    def _placed(self, shape: tuple[int, int], word: str) -> DTensor:
        kind = placement(word)
        local = list(shape)
        if isinstance(kind, Shard):
            local[kind.dim] //= self._devices
        return DTensor.from_local(torch.empty(local, device="meta"), self._mesh, [kind], run_check=False)


def _sent(step: Any) -> tuple[int, Any]:
    made: list[Any] = []
    found = counted(Program(lambda: made.append(step())), smallest=1)
    return sum(each.sent_nbytes for each in found), made[0]
