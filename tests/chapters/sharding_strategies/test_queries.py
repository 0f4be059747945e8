"""Many calls in one group of ranks: past a call that hangs. Chapter 14 puts a rule in place before."""

import time

import pytest
import torch
from torch.distributed.tensor import DTensor

from chapters.sharding_strategies.queries import rulings
from compile_lab.devices import ranks
from compile_lab.devices.dtensor import DTensorCall

pytestmark = pytest.mark.processes

X = torch.randn(8, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def waits_on_one_rank(x):
    if isinstance(x, DTensor) and torch.distributed.get_rank() == 1:
        time.sleep(3600)
    return x + 1


@pytest.mark.slow
def test_a_call_that_hangs_is_a_ruling_and_the_rest_goes_on():
    calls = [DTensorCall(f, (X,), ("S(0)",)) for f in (torch.relu, waits_on_one_rank, torch.abs)]
    assert [one.kind for one in rulings(calls, limit_s=12)] == ["free", "hangs", "free"]


def test_nothing_asked_is_no_ruling_and_what_cannot_be_asked_is_refused():
    assert rulings([]) == ()
    with pytest.raises(ValueError, match="2 placements for 1 tensors"):
        rulings([DTensorCall(torch.relu, (X,), ("S(0)", "R"))])

    def raises():
        raise ValueError("not today")

    with pytest.raises(ranks.RankFailed, match="not today"):
        rulings([DTensorCall(torch.relu, (X,), ("S(0)",))], before=raises)
