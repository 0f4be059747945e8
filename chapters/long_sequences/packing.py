"""Documents of unlike lengths in rows of one length: padding, packing, masks, positions."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from .balance import causal, document_of, work


def document_lengths(count: int = 256, longest: int = 1024, seed: int = 0) -> list[int]:
    """Lengths as texts have them, log-normal: most are short, a few as long as a row."""
    draw = random.Random(seed)
    return [min(longest, max(8, int(draw.lognormvariate(5.0, 1.0)))) for _ in range(count)]


def first_fit(lengths: Sequence[int], row: int) -> list[list[int]]:
    """Documents into rows, the longest first, each into the first row with room.

    Raises ValueError for a document that is longer than a row.
    """
    if lengths and max(lengths) > row:
        raise ValueError(
            f"a document of {max(lengths)} tokens does not fit a row of {row}: split it, or take longer rows"
        )
    rows: list[list[int]] = []
    for length in sorted(lengths, reverse=True):
        home = next((each for each in rows if sum(each) + length <= row), None)
        if home is None:
            rows.append(home := [])
        home.append(length)
    return rows


@dataclass(frozen=True)
class Layout:
    """A way to lay documents into rows: so many positions for so many tokens."""

    name: str
    positions: int
    tokens: int

    @property
    def waste(self) -> float:
        return 1 - self.tokens / self.positions


def layouts(lengths: Sequence[int], row: int, batch: int) -> list[Layout]:
    """Padded to the longest of all, to the longest of each batch as they come, and packed into rows."""
    tokens = sum(lengths)
    batches = [lengths[at : at + batch] for at in range(0, len(lengths), batch)]
    return [
        Layout("padded to the longest", len(lengths) * max(lengths), tokens),
        Layout(f"padded by batches of {batch}", sum(len(each) * max(each) for each in batches), tokens),
        Layout(f"packed into rows of {row:,}", len(first_fit(lengths, row)) * row, tokens),
    ]


def pairs(lengths: Sequence[int]) -> int:
    """Pairs of a query and a key that it looks at, where each of these is causal and for itself."""
    return int(work(lengths).sum())


# ---- what a row of several documents computes
def attention(query: Tensor, key: Tensor, value: Tensor, documents: Tensor | None = None) -> Tensor:
    """SDPA, causal; with `documents`, int [length], within each document."""
    every = torch.arange(query.shape[-2])
    return F.scaled_dot_product_attention(query, key, value, attn_mask=causal(every[:, None], every[None], documents))


def wrong_positions(out: Tensor, expected: Tensor) -> float:
    """The share of positions whose output, [..., length, width], is not the expected one to four digits."""
    off = (out - expected).abs().amax((0, 1, 3)) > 1e-4
    return off.double().mean().item()


def rotated(tensor: Tensor, positions: Tensor) -> Tensor:
    """RoPE: pairs of channels of [..., length, width] turned by an angle that grows with the position."""
    half = tensor.shape[-1] // 2
    angle = positions[:, None] * 10_000.0 ** (-torch.arange(half) / half)
    one, two = tensor[..., :half], tensor[..., half:]
    return torch.cat([one * angle.cos() - two * angle.sin(), two * angle.cos() + one * angle.sin()], -1)


@dataclass(frozen=True)
class Kind:
    """What a kind of position, mask and numbering does to packed documents."""

    positions: str
    masked: bool
    restart: bool
    wrong: float
    """Share of positions whose output is not that of the document alone."""


def kinds(lengths: Sequence[int]) -> list[Kind]:
    """Learned positions and RoPE, with a document mask and without, numbered through or anew in each document."""
    draw, length = torch.Generator().manual_seed(0), sum(lengths)
    query, key, value = (torch.randn(1, 2, length, 16, generator=draw) for _ in range(3))
    table = torch.randn(length, 16, generator=draw)
    through, anew, documents = torch.arange(length), work(lengths) - 1, document_of(lengths)

    def out(kind: str, positions: Tensor, documents: Tensor | None) -> Tensor:
        if kind == "RoPE":
            return attention(rotated(query, positions), rotated(key, positions), value, documents)
        return attention(query + table[positions], key + table[positions], value, documents)

    return [
        Kind(kind, masked, restart, wrong_positions(found, out(kind, anew, documents)))
        for kind in ("learned", "RoPE")
        for masked in (False, True)
        for restart in (False, True)
        for found in [out(kind, anew if restart else through, documents if masked else None)]
    ]
