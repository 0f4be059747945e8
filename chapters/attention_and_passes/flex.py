"""FlexAttention looked into: which blocks a mask visits, and what its functions become in the kernels.

A mask function says of one query and one key whether they may meet, ``mask(batch, head, query, key)``; a score function
changes a pair's score, ``score(value, batch, head, query, key)``. ``visits`` counts blocks without torch's help;
``written`` generates the kernels for a chip and finds both functions in them.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention

from compile_lab.doors import check_whole, door
from compile_lab.dynamo.recompiles import WatchedCall, replay
from compile_lab.inductor.generated import GeneratedCode, generated_code
from compile_lab.inductor.records import Kernel

BLOCK = 128
"""Queries, and keys, of a block: torch's own default."""

SKIPPED, PARTIAL, FULL = " ", "p", "f"


@dataclass(frozen=True)
class BlockVisits:
    """Which blocks of pairs a kernel visits for a mask: of ``length`` queries and keys, ``block`` of each in a block.

    ``rows``: a string for each row of blocks (the queries), a letter for each column (the keys): a space for a block in
    which no pair is allowed, "p" where some are and the mask is asked of each pair, "f" where all are and it is not
    asked. ``pairs`` counts the pairs that are allowed.
    """

    length: int
    block: int
    rows: tuple[str, ...] = field(repr=False)
    pairs: int

    @property
    def blocks(self) -> int:
        """All of them: what attention without a mask visits."""
        return len(self.rows) ** 2

    @property
    def partial(self) -> int:
        return "".join(self.rows).count(PARTIAL)

    @property
    def full(self) -> int:
        return "".join(self.rows).count(FULL)

    @property
    def visited(self) -> int:
        return self.partial + self.full

    @property
    def share(self) -> float:
        """Visited, of all."""
        return self.visited / self.blocks

    @property
    def wasted(self) -> float:
        """Of the pairs in visited blocks, the share that is computed and thrown away."""
        return 1 - self.pairs / (self.visited * self.block**2) if self.visited else 0.0

    def __str__(self) -> str:
        return (
            f"{self.length:,} tokens: {self.visited:,} of {self.blocks:,} blocks visited ({100 * self.share:.1f} %), "
            f"{self.full:,} of them without evaluating the mask"
        )


@door
def visits(
    mask: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor],
    length: int,
    block: int = BLOCK,
    batch: int = 0,
) -> BlockVisits:
    """Which blocks of ``length`` × ``length`` pairs does a mask visit, for one element of the batch and its first head?

    The mask is asked for every pair, a row of blocks at a time: memory grows with the length, time with its square
    (about two seconds at 16,384). A last block that is not whole counts as partial, as it does to torch.
    Raises ValueError for sizes that are none, TypeError for a mask that does not give True and False.
    """
    check_whole("length", length)
    check_whole("block", block)
    check_whole("batch", batch, least=0)
    key, rows, pairs = torch.arange(length), [], 0
    across = -(-length // block)
    for first in range(0, length, block):
        query = torch.arange(first, min(first + block, length))
        allowed = mask(torch.tensor(batch), torch.tensor(0), query[:, None], key[None, :])
        if not isinstance(allowed, Tensor) or allowed.dtype != torch.bool:
            raise TypeError(f"mask gave {type(allowed).__name__}; it must give a tensor of True and False")
        padded = torch.zeros(block, across * block, dtype=torch.bool)
        padded[: len(query), :length] = allowed
        counts = padded.view(block, across, block).sum((0, 2)).tolist()
        pairs += sum(counts)
        rows.append("".join(SKIPPED if not n else FULL if n == block**2 else PARTIAL for n in counts))
    return BlockVisits(length, block, tuple(rows), pairs)


ROLES = {
    "post_mod_scores": "score",
    "mask_mod_output": "mask",
    "grad_scores": "derivative of the score",
}
"""The variable of torch's template that a function's result is put into, and what the function is to the reader."""


@dataclass(frozen=True)
class Inlined:
    """A function of the user's where Inductor wrote it into a kernel: lines ``first`` to ``last`` (from 1) of its body.

    ``role``: mask, score, or derivative of the score; ``inside``: the function of the template that it stands in.
    """

    kernel: Kernel = field(repr=False)
    role: str
    inside: str
    first: int
    last: int

    @property
    def code(self) -> str:
        """The lines, without their margin."""
        return "\n".join(line.strip() for line in self.kernel.body.splitlines()[self.first - 1 : self.last])


@dataclass(frozen=True)
class FlexKernels:
    """What Inductor wrote for one attention: ``code``, of which ``inlined`` are the user's own functions."""

    code: GeneratedCode = field(repr=False)
    inlined: tuple[Inlined, ...]

    def templates(self, direction: str) -> tuple[Kernel, ...]:
        """The attention kernels of "forward" or "backward", without what prepares them."""
        return tuple(each for each in self.code.kernels if each.direction == direction and "_tem_" in each.name)


def attend(q: Tensor, k: Tensor, v: Tensor, score: Callable[..., Tensor] | None, mask: BlockMask | None) -> Tensor:
    """``flex_attention``, under a name that other processes can import."""
    return flex_attention(q, k, v, score, mask)


@door
def written(
    mask: Callable[..., Tensor],
    score: Callable[..., Tensor] | None = None,
    *,
    chip: str = "H200",
    length: int = 1024,
    batch: int = 1,
    heads: int = 2,
    width: int = 64,
    dtype: torch.dtype = torch.bfloat16,
) -> FlexKernels:
    """The kernels, forward and backward, that Inductor writes for a chip that need not be here; ten seconds.

    ``batch`` × ``heads`` × ``length`` × ``width`` are the sizes of queries, keys and values. Raises ValueError for
    sizes that are none and an unknown chip, and what torch raises for a mask or a score that it cannot trace.
    """
    q, k, v = (tensor.to(dtype).requires_grad_() for tensor in inputs(batch, heads, length, width))
    code = generated_code(attend, q, k, v, score, _blocks(mask, batch, length), chip=chip)
    return FlexKernels(code, tuple(each for kernel in code.kernels for each in _inlined(kernel)))


@door
def replayed(
    masks: Iterable[tuple[Callable[..., Tensor], int]],
    *,
    batch: int = 2,
    heads: int = 2,
    width: int = 16,
    dynamic: bool | None = None,
) -> tuple[WatchedCall, ...]:
    """Attention compiled once and called with one mask function and length after another: what compiles again, and why?

    Nothing is run by Inductor: the guards are Dynamo's, and are those that a call meets first.
    """
    calls = [(*inputs(batch, heads, n, width), None, _blocks(mask, batch, n)) for mask, n in masks]
    return replay(attend, calls, dynamic=dynamic)


def inputs(batch: int, heads: int, length: int, width: int, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values, fp32 [batch, heads, length, width], normal. ValueError for sizes that are none."""
    sizes = {"batch": batch, "heads": heads, "length": length, "width": width}
    for name, size in sizes.items():
        check_whole(name, size)
    generator = torch.Generator().manual_seed(seed)
    q, k, v = (torch.randn(*sizes.values(), generator=generator) for _ in range(3))
    return q, k, v


def _blocks(mask: Callable[..., Tensor], batch: int, length: int) -> BlockMask:
    return create_block_mask(mask, batch, None, length, length, device="cpu")


def _inlined(kernel: Kernel) -> Iterable[Inlined]:
    """The runs of Inductor's own lines in a template: those that end in the template's variable for a result."""
    lines = kernel.body.splitlines() if "_tem_" in kernel.name else []
    inside, start = "", None
    for number, line in enumerate(lines, 1):
        if defined := re.match(r"def (\w+)", line):
            inside = defined[1]
        if re.match(r"\s+(tmp\d+ = |tl\.device_assert)", line):
            start = number if start is None else start
            continue
        result = re.match(r"\s+(\w+) = tmp\d+$", line)
        if start and result and result[1] in ROLES and _does_something(lines[start - 1 : number - 1]):
            yield Inlined(kernel, ROLES[result[1]], inside, start, number)
        start = None


def _does_something(lines: list[str]) -> bool:
    """False for a score that is passed on as it is."""
    return len(lines) > 1 or not re.fullmatch(r"\s+tmp\d+ = \(\w+\)", lines[0])


def dense(q: Tensor, k: Tensor, v: Tensor, score: Callable[..., Any] | None, mask: Callable[..., Tensor]) -> Tensor:
    """The same attention without FlexAttention: every score, in the inputs' own type. The judge's own words for it."""
    batch, heads, length, width = q.shape
    b, h, query, key = (torch.arange(size, device=q.device) for size in (batch, heads, length, length))
    b, h, query, key = b[:, None, None, None], h[:, None, None], query[:, None], key[None, :]
    scores = q @ k.mT / width**0.5
    if score is not None:
        scores = score(scores, b, h, query, key)
    return scores.masked_fill(~mask(b, h, query, key), -torch.inf).softmax(-1) @ v
