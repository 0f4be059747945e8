"""Answers that are right, and those that are likely and wrong."""

import pytest
import torch

from chapters.exercises import check


def judged(name, answer):
    return str(check(name, answer))


@pytest.mark.parametrize(
    ("answer", "word"), [(2 - 1 / 64, "right."), (1.98, "right."), (64, "nothing"), (1.0, "share")]
)
def test_the_slowest_of_64(answer, word):
    assert word in judged("17.1", answer)


def in_chunks(lengths, ranks, tail=True):
    mine, start = [[] for _ in range(ranks)], 0
    for length in lengths:
        chunk = length // (2 * ranks)
        for rank in range(ranks):
            for number in (rank, 2 * ranks - 1 - rank if tail else ranks + rank):
                mine[rank] += range(start + number * chunk, start + (number + 1) * chunk)
        start += length
    return mine


@pytest.mark.parametrize(
    ("answer", "word"),
    [
        (in_chunks, "right."),
        (lambda lengths, ranks: in_chunks(lengths, ranks, tail=False), "pairs."),
        (lambda lengths, ranks: in_chunks([sum(lengths)], ranks), "pairs."),
        (lambda lengths, ranks: [list(range(sum(lengths)))] + [[]] * (ranks - 1), "as many each"),
        (lambda lengths, ranks: [[0]] * ranks, "not every position"),
        (lambda lengths, ranks: [[0]], "it has 1 lists"),
    ],
)
def test_positions_dealt(answer, word):
    assert word in judged("17.2", answer)


@pytest.mark.parametrize(
    ("answer", "word"),
    [
        (lambda outs, lses: (outs * (lses - lses.logsumexp(0)).exp()).sum(0), "right."),
        (lambda outs, lses: (outs * lses.softmax(0)).sum(0), "right."),
        (lambda outs, lses: (outs * lses.exp()).sum(0) / lses.exp().sum(0), "not finite"),
        (lambda outs, lses: outs.mean(0), "off by"),
        (lambda outs, lses: outs * torch.ones_like(lses), "it returns"),
    ],
)
def test_blocks_merged(answer, word):
    assert word in judged("17.3", answer)


@pytest.mark.parametrize(
    ("answer", "word"), [(44, "right."), (43, "a little less"), (1, "one layer"), (3505, "34 bytes")]
)
def test_fewest_gpus(answer, word):
    assert word in judged("17.4", answer)
