"""The tensors in a value and the bytes behind them, held against torch's own properties."""

from collections import namedtuple

import torch
from torch.fx.experimental.proxy_tensor import make_fx
from wrapping import Silent, Wrapped

from compile_lab.tensors import (
    is_fake,
    is_hollow,
    is_wrapper,
    memories,
    nbytes,
    number,
    storage_nbytes,
    storage_of,
    tensors,
)

Pair = namedtuple("Pair", "left right")


def test_tensors_are_found_however_they_are_nested():
    a, b, c = torch.ones(1), torch.ones(2), torch.ones(3)
    assert [each.numel() for each in tensors(((a, [b]), {"c": c, "n": 3}, None, "text"))] == [1, 2, 3]
    assert [each.numel() for each in tensors(Pair(c, a))] == [3, 1] and len(tensors([a, a])) == 2
    assert [each.dtype for each in tensors(torch.sort(c))] == [torch.float32, torch.int64]
    assert tensors(3) == tensors(None) == tensors([]) == []


def test_bytes_are_torchs():
    a, b = torch.ones(3, 5, dtype=torch.bfloat16), torch.ones(7, dtype=torch.int64)
    assert nbytes(a) == a.nbytes == 30 and nbytes((a, {"b": [b]})) == 30 + 56
    assert nbytes(a.expand(4, 3, 5)) == 120 and nbytes([a, a.T]) == 60, "elements count, not memory"
    assert nbytes(None) == nbytes(2.5) == 0 and nbytes(torch.empty(0)) == 0


def test_a_sparse_tensor_and_one_that_wraps_others_have_the_memory_of_their_parts():
    inner = Wrapped(torch.ones(4, dtype=torch.int8), torch.ones(1))
    sparse = torch.ones(2, 2).to_sparse()
    found = memories([Wrapped(inner, torch.ones(2)), {"s": sparse}, torch.ones(3)])
    assert [nbytes(each) for each in found] == [4, 4, 8, 64, 16, 12]
    assert is_wrapper(Wrapped) and not is_wrapper(Silent) and not is_wrapper(torch.nn.Parameter)


def test_a_tensor_without_memory_of_its_own_is_told_from_a_fake_one():
    silent = Silent(torch.ones(4), torch.ones(1))
    assert is_hollow(silent) and not is_fake(silent) and not is_hollow(torch.ones(2))
    fake = torch.ones(2, device="meta")
    assert is_fake(fake) and not is_hollow(fake) and not is_fake(torch.ones(2))


def test_views_share_their_memory_and_copies_do_not():
    a = torch.ones(8, 8)
    view = a.T[2:]
    assert storage_of(a) == storage_of(view) == storage_of(a.detach()) != storage_of(a.clone())
    assert storage_nbytes(view) == storage_nbytes(a) == a.nbytes > nbytes(view)
    assert storage_nbytes(torch.ones(1).expand(100)) == 4


def test_a_symbolic_size_is_the_one_that_was_traced():
    graph = make_fx(lambda x: x * 2, tracing_mode="symbolic")(torch.ones(6, 4)).graph
    traced = next(iter(graph.nodes)).meta["val"]
    assert isinstance(traced.shape[0], torch.SymInt) and number(traced.shape[0]) == 6
    assert nbytes(traced) == storage_nbytes(traced) == 96
