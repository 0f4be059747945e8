"""Answers that are right, and those that are likely and wrong."""

import pytest
import torch

from chapters.exercises import check


def judged(name, answer):
    return str(check(name, answer))


@pytest.mark.parametrize(
    ("answer", "word"),
    [(335, "right."), (79, "are dropped"), (256, "does not fill the others"), (512, "how many rows")],
)
def test_padding(answer, word):
    assert word in judged("16.1", answer)


def away(rows):
    return [sum(mine) - mine[rank] for rank, mine in enumerate(rows)]


def come(rows):
    return away([list(column) for column in zip(*rows, strict=True)])


@pytest.mark.parametrize(
    ("answer", "word"),
    [
        (lambda rows, width: [8 * width * (a + b) for a, b in zip(away(rows), come(rows), strict=True)], "right."),
        (lambda rows, width: [4 * width * a for a in away(rows)], "dispatch alone"),
        (lambda rows, width: [4 * width * (a + b) for a, b in zip(away(rows), come(rows), strict=True)], "backward"),
        (lambda rows, width: [16 * width * a for a in away(rows)], "sends back what it received"),
        (lambda rows, width: [16 * width * sum(mine) for mine in rows], "own experts"),
    ],
)
def test_bytes_sent(answer, word):
    assert word in judged("16.2", answer)


def scattered(expert, experts):
    counts = torch.zeros(experts, dtype=torch.int64).scatter_add(0, expert, torch.ones_like(expert))
    return counts.cumsum(0).to(torch.int32)


@pytest.mark.parametrize(
    ("answer", "word"),
    [
        (scattered, "right."),
        (lambda expert, experts: (expert[:, None] <= torch.arange(experts)).sum(0).to(torch.int32), "right."),
        (lambda expert, experts: torch.bincount(expert, minlength=experts).cumsum(0).to(torch.int32), "breaks"),
        (lambda expert, experts: torch.bincount(expert).cumsum(0).to(torch.int32), "expert e ends"),
        (lambda expert, experts: scattered(expert, experts).long(), "takes int32"),
        (lambda expert, experts: scattered(expert, experts).tolist(), "a tensor is wanted"),
    ],
)
def test_group_ends(answer, word):
    assert word in judged("16.3", answer)


@pytest.mark.parametrize(
    ("answer", "word"),
    [(5.03, "right."), (5.0, "right."), (5.37, "come from"), (0.629, "as often"), (20.1, "how many")],
)
def test_dispatch_ms(answer, word):
    assert word in judged("16.4", answer)
