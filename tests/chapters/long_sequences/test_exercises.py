"""Answers that are right, and those that are likely and wrong."""

import torch
from answers import judged_as

test_the_slowest_of_64 = judged_as(
    (2 - 1 / 64, "right."),
    (1.98, "right."),
    (64, "nothing"),
    (1.0, "share"),
    name="17.1",
)


def in_chunks(lengths, ranks, tail=True):
    mine, start = [[] for _ in range(ranks)], 0
    for length in lengths:
        chunk = length // (2 * ranks)
        for rank in range(ranks):
            for number in (rank, 2 * ranks - 1 - rank if tail else ranks + rank):
                mine[rank] += range(start + number * chunk, start + (number + 1) * chunk)
        start += length
    return mine


test_positions_dealt = judged_as(
    (in_chunks, "right."),
    (lambda lengths, ranks: in_chunks(lengths, ranks, tail=False), "pairs."),
    (lambda lengths, ranks: in_chunks([sum(lengths)], ranks), "pairs."),
    (lambda lengths, ranks: [list(range(sum(lengths)))] + [[]] * (ranks - 1), "as many each"),
    (lambda lengths, ranks: [[0]] * ranks, "not every position"),
    (lambda lengths, ranks: [[0]], "it has 1 lists"),
    name="17.2",
)


test_blocks_merged = judged_as(
    (lambda outs, lses: (outs * (lses - lses.logsumexp(0)).exp()).sum(0), "right."),
    (lambda outs, lses: (outs * lses.softmax(0)).sum(0), "right."),
    (lambda outs, lses: (outs * lses.exp()).sum(0) / lses.exp().sum(0), "not finite"),
    (lambda outs, lses: outs.mean(0), "off by"),
    (lambda outs, lses: outs * torch.ones_like(lses), "it returns"),
    name="17.3",
)


test_fewest_gpus = judged_as(
    (44, "right."),
    (43, "a little less"),
    (1, "one layer"),
    (3505, "34 bytes"),
    name="17.4",
)
