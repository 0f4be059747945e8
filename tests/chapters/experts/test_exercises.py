"""Answers that are right, and those that are likely and wrong."""

import torch
from answers import judged_as

test_padding = judged_as(
    (335, "right."),
    (79, "are dropped"),
    (256, "does not fill the others"),
    (512, "how many rows"),
    name="16.1",
)


def away(rows):
    return [sum(mine) - mine[rank] for rank, mine in enumerate(rows)]


def come(rows):
    return away([list(column) for column in zip(*rows, strict=True)])


test_bytes_sent = judged_as(
    (lambda rows, width: [8 * width * (a + b) for a, b in zip(away(rows), come(rows), strict=True)], "right."),
    (lambda rows, width: [4 * width * a for a in away(rows)], "dispatch alone"),
    (lambda rows, width: [4 * width * (a + b) for a, b in zip(away(rows), come(rows), strict=True)], "backward"),
    (lambda rows, width: [16 * width * a for a in away(rows)], "sends back what it received"),
    (lambda rows, width: [16 * width * sum(mine) for mine in rows], "own experts"),
    name="16.2",
)


def scattered(expert, experts):
    counts = torch.zeros(experts, dtype=torch.int64).scatter_add(0, expert, torch.ones_like(expert))
    return counts.cumsum(0).to(torch.int32)


test_group_ends = judged_as(
    (scattered, "right."),
    (lambda expert, experts: (expert[:, None] <= torch.arange(experts)).sum(0).to(torch.int32), "right."),
    (lambda expert, experts: torch.bincount(expert, minlength=experts).cumsum(0).to(torch.int32), "breaks"),
    (lambda expert, experts: torch.bincount(expert).cumsum(0).to(torch.int32), "expert e ends"),
    (lambda expert, experts: scattered(expert, experts).long(), "takes int32"),
    (lambda expert, experts: scattered(expert, experts).tolist(), "a tensor is wanted"),
    name="16.3",
)


test_dispatch_ms = judged_as(
    (5.03, "right."),
    (5.0, "right."),
    (5.37, "come from"),
    (0.629, "as often"),
    (20.1, "how many"),
    name="16.4",
)
