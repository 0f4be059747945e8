"""Packed rows, one after another, through a compiled layer: how many graphs are made of it?

torch's ``varlen_attn`` has a kernel for GPUs alone. Dynamo needs none: it traces with fake tensors. So the backend here
counts graphs and returns zeros of the right shapes, and nothing is computed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.nn.attention.varlen import varlen_attn

from compile_lab._torch.dynamo import dynamo_config, dynamo_utils

from .balance import causal, document_of

HEADS, WIDTH = 2, 16


@dataclass(frozen=True)
class Compiled:
    """How many graphs were compiled up to each row, and how often a graph broke."""

    way: str
    graphs: tuple[int, ...]
    breaks: int
    rows: int
    """How many rows there were; with fewer counts than rows, Dynamo's limit of recompiles was reached."""

    @property
    def ending(self) -> str:
        return "compiled" if len(self.graphs) == self.rows else f"eager from row {len(self.graphs) + 1} on"


def boundaries(lengths: Sequence[int]) -> Tensor:
    """Where documents begin and the last one ends, int32 [documents + 1]: ``cu_seqlens``."""
    return torch.tensor([0, *lengths]).cumsum(0).int()


def _heads(x: Tensor) -> Tensor:
    return x.unflatten(-1, (HEADS, WIDTH))


def varlen(x: Tensor, bounds: Tensor, longest: int) -> Tensor:
    """torch's attention over documents that lie one after the other; x: [tokens, HEADS * WIDTH]."""
    each = _heads(x)
    out: Any = varlen_attn(each, each, each, bounds, bounds, longest, longest)
    return out


def masked(x: Tensor, mask: Tensor) -> Tensor:
    """SDPA with a mask, bool [tokens, tokens]."""
    each = _heads(x).transpose(0, 1)[None]
    return F.scaled_dot_product_attention(each, each, each, attn_mask=mask)


def flex(x: Tensor, mask: Any) -> Tensor:
    """FlexAttention with a block mask that was made outside."""
    each = _heads(x).transpose(0, 1)[None]
    return flex_attention(each, each, each, block_mask=mask)


def apart(x: Tensor, lengths: Sequence[int]) -> Tensor:
    """SDPA for one document after the other, in a Python loop."""
    each = _heads(x).transpose(0, 1)[None]
    parts = each.split([*lengths], -2)
    return torch.cat([F.scaled_dot_product_attention(part, part, part, is_causal=True) for part in parts], -2)


def _row_mask(lengths: Sequence[int]) -> Tensor:
    every = torch.arange(sum(lengths))
    return causal(every[:, None], every[None], document_of(lengths))


def _block_mask(lengths: Sequence[int]) -> Any:
    documents = document_of(lengths)

    def allowed(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return (query >= key) & (documents[query] == documents[key])

    return create_block_mask(allowed, None, None, len(documents), len(documents), device="cpu")


Arguments = Callable[[Sequence[int]], tuple[Any, ...]]
PROGRAMS: dict[str, tuple[Callable[..., Tensor], Arguments, bool | None]] = {
    "varlen_attn": (varlen, lambda row: (boundaries(row), max(row)), None),
    "varlen_attn, dynamic=False": (varlen, lambda row: (boundaries(row), max(row)), False),
    "varlen_attn, dynamic=True": (varlen, lambda row: (boundaries(row), max(row)), True),
    "varlen_attn, bounds padded, longest = row": (varlen, lambda row: (padded(row), sum(row)), None),
    "FlexAttention, a block mask": (flex, lambda row: (_block_mask(row),), None),
    "SDPA, a mask": (masked, lambda row: (_row_mask(row),), None),
    "SDPA, a loop over documents": (apart, lambda row: (row,), None),
}
"""A way by name: the function, its arguments for a row, and torch.compile's `dynamic`."""


def padded(lengths: Sequence[int], most: int = 16) -> Tensor:
    """`boundaries` of always the same length: documents without a token follow the last one."""
    return F.pad(boundaries(lengths), (0, most - len(lengths)), value=sum(lengths))


def count(way: str, rows: Sequence[Sequence[int]]) -> Compiled:
    """Give a compiled layer these rows, each the lengths of its documents, and count. All rows have as many tokens."""
    program, arguments, dynamic = PROGRAMS[way]
    torch.compiler.reset()
    dynamo_utils.counters.clear()
    graphs, counts = 0, []

    def backend(module: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        nonlocal graphs
        graphs += 1
        (output,) = (node for node in module.graph.nodes if node.op == "output")
        shapes = [[int(side) for side in node.meta["example_value"].shape] for node in output.args[0]]
        return lambda *_: [torch.zeros(shape) for shape in shapes]

    compiled = torch.compile(program, backend=backend, dynamic=dynamic)
    with torch.no_grad(), dynamo_config.patch(fail_on_recompile_limit_hit=True):
        for row in rows:
            given = arguments(row)
            try:
                compiled(torch.zeros(sum(row), HEADS * WIDTH), *given)
            except Exception as error:  # its type has another name in another torch
                if "recompile_limit" not in str(error):
                    raise
                break
            counts.append(graphs)
    return Compiled(way, tuple(counts), sum(dynamo_utils.counters["graph_break"].values()), len(rows))
