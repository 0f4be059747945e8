"""Answers that are likely and wrong, or right in another way than the notebook's."""

import torch
from answers import judged_as


def in_chunks(lengths, ranks):
    mine, start = [[] for _ in range(ranks)], 0
    for length in lengths:
        chunk = length // (2 * ranks)
        for rank in range(ranks):
            for number in (rank, 2 * ranks - 1 - rank):
                mine[rank] += range(start + number * chunk, start + (number + 1) * chunk)
        start += length
    return mine


test_a_wrong_answer_is_told_what_is_wrong_with_it = judged_as(
    ("17.1", 1.98, "right."),
    ("17.1", 64, "nothing"),
    ("17.1", 1.0, "share"),
    ("17.2", lambda lengths, ranks: in_chunks([sum(lengths)], ranks), "pairs."),
    ("17.2", lambda lengths, ranks: [list(range(sum(lengths)))] + [[]] * (ranks - 1), "as many each"),
    ("17.2", lambda lengths, ranks: [[0]] * ranks, "not every position"),
    ("17.2", lambda lengths, ranks: [[0]], "it has 1 lists"),
    ("17.3", lambda outs, lses: (outs * lses.softmax(0)).sum(0), "right."),
    ("17.3", lambda outs, lses: outs.mean(0), "off by"),
    ("17.3", lambda outs, lses: outs * torch.ones_like(lses), "it returns"),
    ("17.4", 43, "a little less"),
    ("17.4", 1, "one layer"),
    ("17.4", 3505, "34 bytes"),
)
