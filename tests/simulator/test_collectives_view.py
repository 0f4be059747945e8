"""A ring, carried out: it adds up, and sends what the formula says."""

import itertools

import pytest

from compile_lab.simulator.collectives import Collective
from compile_lab.simulator.collectives_view import ring


@pytest.mark.parametrize("ranks", [2, 3, 4, 7])
def test_a_ring_adds_everything_up_everywhere_and_sends_what_the_formula_says(ranks):
    steps = ring(ranks)
    everybody = frozenset(range(ranks))
    middle, end = steps[ranks - 1].chunks, steps[-1].chunks
    assert [sum(chunk == everybody for chunk in chunks) for chunks in middle] == [1] * ranks, "reduce-scattered"
    assert all(chunk == everybody for chunks in end for chunk in chunks)
    for before, after in itertools.pairwise(steps):
        for rank in range(ranks):
            came = after.sent[rank - 1]
            changed = [c for c in range(ranks) if before.chunks[rank][c] != after.chunks[rank][c]]
            assert changed == [came] and after.chunks[rank][came] >= before.chunks[rank - 1][came]
    payload = 100 * ranks
    assert 100 * (len(steps) - 1) == Collective("all_reduce", "x", ranks, 1, payload).sent_nbytes
