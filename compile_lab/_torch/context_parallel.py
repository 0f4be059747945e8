"""Private names of context parallel: torch's balancers, which say in what order positions are dealt to ranks."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor


def head_tail(length: int, ranks: int) -> Tensor:
    """Of 2·ranks chunks, rank r gets chunk r and the r-th from the end. int64 [ranks, positions a rank]."""
    return _dealt(_balancers()._HeadTailLoadBalancer(length, ranks, "cpu"), ranks)


def per_document(lengths: Sequence[int], ranks: int) -> Tensor:
    """The same within each document, of so many positions. int64 [ranks, positions a rank]."""
    return _dealt(_balancers()._PerDocumentHeadTailLoadBalancer([[*lengths]], ranks, "cpu"), ranks)


def ptrr(documents: Tensor, ranks: int, block: int) -> Tensor:
    """Blocks of positions by their work, dealt round-robin there and back (processing-time-based round-robin).

    documents: the number of each position's document; a position looks back in its own. int64 [ranks, positions].
    """
    from torch.nn.attention.flex_attention import create_block_mask

    def allowed(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return (query >= key) & (documents[query] == documents[key])

    length = len(documents)
    mask = create_block_mask(allowed, 1, 1, length, length, device="cpu", BLOCK_SIZE=block)
    return _dealt(_balancers()._PTRRLoadBalancer(mask, ranks), ranks)


def _dealt(balancer: Any, ranks: int) -> Tensor:
    return balancer._generate_indices().flatten().long().view(ranks, -1)


def _balancers() -> Any:
    """ImportError, with the way out, where this torch keeps them elsewhere."""
    try:
        from torch.distributed.tensor.experimental._context_parallel import _load_balancer
    except ImportError as error:
        raise ImportError(
            f"torch {torch.__version__} has no balancers of context parallel here: take 2.11 to 2.13"
        ) from error
    return _load_balancer


@contextmanager
def dealt_and_sent(balanced: bool, method: str) -> Iterator[None]:
    """While the block runs, ``context_parallel`` deals positions head-tail if `balanced`, else in order, and keys and
    values come by `method`: "allgather", or "alltoall", which is a ring.
    """
    from torch.distributed.tensor.experimental._context_parallel import _attention

    options = _attention._cp_options
    before = options.enable_load_balance, options.rotate_method
    options.enable_load_balance = balanced
    _attention.set_rotate_method(method)
    try:
        yield
    finally:
        options.enable_load_balance, options.rotate_method = before
