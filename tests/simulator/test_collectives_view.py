"""A ring, carried out: it adds up, and sends what the formula says."""

import itertools
import re

import pytest

from compile_lab.simulator.collectives import Collective
from compile_lab.simulator.collectives_view import pair, ring, ring_all_reduce


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


def test_nobody_alone_makes_a_ring():
    with pytest.raises(ValueError, match="ranks is 1; it must be a whole number from 2"):
        ring(1)


def test_the_ring_is_drawn_step_by_step():
    drawn = ring_all_reduce(4)
    assert drawn.svg.count("<rect") == 7 * 4 * 4 and "6 chunks of 1/4" in drawn.caption
    numbers = [int(n) for n in re.findall(r">(\d)</text>", drawn.svg)]
    assert numbers[:16] == [1] * 16 and numbers[-16:] == [4] * 16


def test_the_pair_is_to_scale():
    sizes = [tuple(map(float, found)) for found in re.findall(r"width='([\d.]+)' height='([\d.]+)'", pair().svg)]
    x, up, of_up, h, of_h, down, of_down, partial = sizes[:8]
    assert up == (4 * x[0], x[0]) and h == (up[0], x[1]) and down == up[::-1] and partial == x
    assert (of_up[0], of_h[0], of_down[1]) == (up[0] / 2, h[0] / 2, down[1] / 2)
