"""The roofline's formulas against a real model's parameters and against counting by hand."""

import pytest
import torch

from compile_lab.simulator.serving import (
    DecodeWork,
    capacity,
    decode_work,
    least_ms,
    most_slots,
    sized_work,
    turning_batch,
)
from mini_model.generation import CachedGPT
from mini_model.model import GPT2_124M, MINI, MiniGPT

BYTES_PER_S, FLOP_PER_S = 4e12, 8e14


def work_of(config, slots, itemsize=2):
    sizes = config.layers, config.dim, config.vocabulary, slots
    return decode_work(*sizes, itemsize=itemsize, tied_head=config.tied_head)


@pytest.mark.parametrize("config", [MINI, GPT2_124M])
def test_the_weights_are_those_a_step_reads_and_the_cache_is_the_one_that_is_built(config):
    with torch.device("meta"):
        cached = CachedGPT(MiniGPT(config), rows=3)
    # Of an embedding a step reads a row; a tied one is the head's matrix, which it reads whole.
    unread = ["position_embedding"] + ["token_embedding"] * (not config.tied_head)
    read = sum(each.numel() for name, each in cached.model.named_parameters() if not name.startswith(tuple(unread)))
    work = work_of(config, config.context)
    assert work.weights_nbytes == 2 * read
    assert 3 * work.cache_nbytes == 2 * sum(buffer.numel() for buffer in cached.buffers())


def test_operations_are_those_torch_counts_but_for_what_attention_masks():
    from torch.utils.flop_counter import FlopCounterMode

    cached = CachedGPT(MiniGPT(MINI).eval(), rows=2)
    with torch.no_grad(), FlopCounterMode(display=False) as counted:
        cached.decode(torch.zeros(2, dtype=torch.int64), torch.zeros(2, dtype=torch.int64))
    work = work_of(MINI, 64)
    assert counted.get_total_flops() in (2 * work.weights_flop, work.flop(2))


def test_gpt2_is_bound_by_bytes_at_any_batch_unless_its_cache_is_short():
    work = work_of(GPT2_124M, 1024)
    assert turning_batch(work, BYTES_PER_S, FLOP_PER_S) is None
    assert work.most_intensity < 8 < FLOP_PER_S / BYTES_PER_S
    most = most_slots(work, BYTES_PER_S, FLOP_PER_S)
    assert turning_batch(work_of(GPT2_124M, most), BYTES_PER_S, FLOP_PER_S) is not None
    assert turning_batch(work_of(GPT2_124M, most + 1), BYTES_PER_S, FLOP_PER_S) is None


def test_the_turning_batch_is_the_first_at_which_computing_is_longer():
    work = work_of(GPT2_124M, 16)
    batch = turning_batch(work, BYTES_PER_S, FLOP_PER_S)

    def computing_is_longer(batch):
        return work.flop(batch) / FLOP_PER_S >= work.nbytes(batch) / BYTES_PER_S

    assert computing_is_longer(batch) and not computing_is_longer(batch - 1)


def test_the_least_time_is_the_longer_of_two():
    work = DecodeWork(weights_nbytes=100, cache_nbytes=10, weights_flop=50, attention_flop=10, slots=5)
    assert least_ms(work, 1, bytes_per_s=110, flop_per_s=1e9) == pytest.approx(1000)
    assert least_ms(work, 2, bytes_per_s=1e9, flop_per_s=60) == pytest.approx(2000)
    assert most_slots(work, bytes_per_s=1e9, flop_per_s=1) is None, "attention alone takes longer to compute"


def test_a_machine_serves_what_fits_at_the_longer_of_its_limits():
    work = sized_work(7, 4096, 2)
    small = capacity(work, 1, 141e9, 4e12, 700e12)
    assert work.weights_nbytes == 14_000_000_000 and small.limit == "reading"
    assert small.step_ms == pytest.approx((14e9 + work.cache_nbytes) / 4e9) and small.tokens_per_s < 300
    most = small.most_sequences
    assert capacity(work, most, 141e9, 4e12, 700e12).fits
    assert capacity(work, most + 1, 141e9, 4e12, 700e12).limit == "memory size"
    assert capacity(sized_work(7, 128, 2), 500, 141e9, 4e12, 100e12).limit == "arithmetic"
    assert capacity(work, 1, 10e9, 4e12, 700e12).most_sequences == 0


def test_the_usual_shape_has_the_weights_that_were_asked_for():
    for billions in (0.1, 7, 70):
        work = sized_work(billions, 1024, 0.5)
        assert work.weights_nbytes == round(billions * 5e8) and work.weights_flop == round(billions * 2e9)
    assert sized_work(7, 2048, 1).cache_nbytes == 2 * sized_work(7, 1024, 1).cache_nbytes


def test_heads_that_share_a_key_divide_the_cache_and_nothing_else():
    own, shared = sized_work(7, 4096, 2), sized_work(7, 4096, 2, heads_a_key=8)
    assert shared.cache_nbytes == own.cache_nbytes / 8
    assert (shared.weights_nbytes, shared.sequence_flop) == (own.weights_nbytes, own.sequence_flop)
