"""The roofline's formulas against a real model's parameters and against counting by hand."""

import pytest
import torch

from compile_lab.simulator.serving import (
    capacity,
    decode_work,
    most_slots,
    sized_work,
    turning_batch,
)
from mini_model.generation import CachedGPT
from mini_model.model import GPT2_124M, MINI, MiniGPT

RATES = BYTES_PER_S, FLOP_PER_S = 4e12, 8e14


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


def test_the_turning_batch_is_the_first_at_which_computing_is_longer_and_a_longer_cache_has_none():
    def computing_is_longer(work, batch):
        return work.flop(batch) / FLOP_PER_S >= work.nbytes(batch) / BYTES_PER_S

    work = work_of(GPT2_124M, 16)
    batch, most = turning_batch(work, *RATES), most_slots(work, *RATES)
    assert computing_is_longer(work, batch) and not computing_is_longer(work, batch - 1)
    assert turning_batch(work_of(GPT2_124M, most), *RATES) is not None
    longer = work_of(GPT2_124M, most + 1)
    assert turning_batch(longer, *RATES) is None and not computing_is_longer(longer, 10**9)


def test_a_machine_serves_what_fits_at_the_longer_of_its_limits():
    work = sized_work(7, 4096, 2)
    small = capacity(work, 1, 141e9, 4e12, 700e12)
    assert small.limit == "reading" and small.step_ms == pytest.approx((14e9 + work.cache_nbytes) / 4e9)
    most = small.most_sequences
    assert capacity(work, most, 141e9, 4e12, 700e12).fits
    assert capacity(work, most + 1, 141e9, 4e12, 700e12).limit == "memory size"
    assert capacity(sized_work(7, 128, 2), 500, 141e9, 4e12, 100e12).limit == "arithmetic"
    assert capacity(work, 1, 10e9, 4e12, 700e12).most_sequences == 0
