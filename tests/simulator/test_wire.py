"""Overlap on paper: buckets against torch's, a wire against numpy's, plain timelines, what holds for any of them."""

import random

import numpy as np
import pytest
import torch
import torch.distributed as dist

from compile_lab.simulator.wire import Gradient, buckets, ddp_overlap, fsdp_order, measured_wire, step_of


@pytest.mark.parametrize("seed", range(10))
def test_buckets_are_those_of_ddp(seed):
    drawn = random.Random(seed)
    tensors = [torch.empty(drawn.randrange(1, 400)) for _ in range(drawn.randrange(1, 30))]
    first, cap = drawn.choice([(800, 2000), (2000, 2000), (1, 1)])
    assigned, _ = dist._compute_bucket_assignment_by_size(tensors, [first, cap])
    assert buckets([tensor.nbytes for tensor in tensors], cap, first) == assigned


@pytest.mark.parametrize("seed", range(20))
def test_what_is_exposed_lies_between_its_bounds(seed):
    drawn = random.Random(seed)
    gradients = [Gradient(float(at + 1), drawn.randrange(1, 500)) for at in range(12)]
    total, speed = sum(each.nbytes for each in gradients), drawn.uniform(20, 500)
    cap = drawn.randrange(1, 3000)
    found = ddp_overlap(gradients, 12, cap_nbytes=cap, bytes_per_ms=speed)
    last = sum(gradients[at].nbytes for at in buckets([each.nbytes for each in gradients], cap)[-1])
    assert found.communication_ms == pytest.approx(total / speed)
    assert last / speed - 1e-9 <= found.exposed_ms <= total / speed + 1e-9


def test_an_order_is_carried_out_with_one_wire():
    ahead = step_of(["AG0", "AG1", "w0", "MM", "w1", "MM"], 2, 3)
    assert ahead.span_ms == 8 and ahead.exposed_ms == 4 and ahead.fraction == pytest.approx(1 / 3)
    bucketed = step_of(["AG0", "k", "w0", "MM", "MM", "RS1", "w1"], 2, [3, 1])
    assert bucketed.span_ms == 8 and bucketed.communication_ms == 4


def fsdp(**options):
    """Three blocks and a head of two products, 10 ms each; collectives of 1 ms."""
    order = fsdp_order(3, 2, **options)
    return order, step_of(order, 10, 1)


def test_fsdp_gathers_before_each_use_and_hides_all_but_the_first_and_the_last():
    order, found = fsdp()
    assert [token[:2] for token in order].count("AG") == 8 and [token[:2] for token in order].count("RS") == 4
    assert found.compute_ms == 10 * 3 * (3 + 2)
    assert found.exposed_ms == 2 + 2, "root and first block; the last block's gradients and the root's"


def test_without_resharding_fsdp_gathers_once_and_without_prefetch_it_waits_for_the_wire():
    order, kept = fsdp(reshard=False)
    assert [token[:2] for token in order].count("AG") == 4 and kept.exposed_ms == 4
    _, late = fsdp(prefetch=False)
    assert late.exposed_ms == 4 + 2 * 2, "two blocks wait for a reduce-scatter and a gather each"


@pytest.mark.parametrize("seed", range(20))
def test_between_measured_sizes_is_numpys_interpolation_to_the_last_digit(seed):
    drawn = random.Random(seed)
    sizes = sorted(drawn.sample(range(1, 10**9), drawn.randrange(1, 9)))
    rates = [{"kind": "send", "nbytes": size, "median_us": drawn.uniform(1, 1e5)} for size in sizes]
    wire, times = measured_wire(rates, "send"), [row["median_us"] / 1e3 for row in rates]
    for nbytes in [*sizes, *drawn.sample(range(1, sizes[-1] + 1), min(9, sizes[-1]))]:
        assert wire(nbytes) == float(np.interp(nbytes, sizes, times))
