"""Exercises of chapter 14: a right answer passes, a starter and wrong answers do not, and each is told why."""

import pytest
import torch
import torch.nn.functional as F
from answers import judged_as
from torch.distributed.tensor import Partial, Replicate, Shard

from chapters.sharding_strategies import in_page
from chapters.sharding_strategies.candidates import candidates

pytestmark = pytest.mark.processes

PLACED = {name: placement for name, (placement, _) in in_page.PLACEMENTS.items()}
IMAGES = torch.randn(4, 2, 6, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("name", PLACED)
def test_dtensor_places_a_result_where_the_judge_of_14_1_says(name):
    found = candidates(lambda x: eval(name, {"x": x}), (torch.ones(8, 8, dtype=torch.float64),), ("S(0)",), devices=2)
    assert (found.out[0], bool(found.sent)) == in_page.PLACEMENTS[name]


def gathered(a, b):
    whole = [x.full_tensor() if hasattr(x, "full_tensor") else x for x in (a, b)]
    return (whole[0] - whole[1]).square().mean()


def unfold_rule(x, *settings):
    rest = [None] * len(settings)
    kinds = Replicate(), Shard(0), Shard(1), Partial("sum")
    return [([kind], [kind, *rest]) for kind in kinds]


def wrong_rule(x, *settings):
    return [([kind], [kind, *[None] * len(settings)]) for kind in (Replicate(), Shard(0), Shard(2))]


def own(rule, operator="aten.im2col.default"):
    return {"operator": operator, "rule": rule, "call": lambda x: F.unfold(x, 3, padding=1), "args": (IMAGES,)}


test_a_wrong_answer_is_told_why = judged_as(
    ("14.1", dict.fromkeys(PLACED, ...), "x.sum(0) has no answer yet"),
    ("14.1", PLACED | {"x.softmax(0)": "S(0)"}, "something is sent first"),
    ("14.1", {"x.sum(0)": "R"}, "a placement of each"),
    ("14.2", ("R", "R", "R"), "a and b is not sharded"),
    ("14.3", gathered, "for it"),
    ("14.3", F.l1_loss, "another loss"),
    ("14.4", own(wrong_rule), "no error says so"),
    ("14.4", own(unfold_rule, "aten.nothing.default"), "torch has no operator"),
    ("14.4", own(unfold_rule) | {"operator": "aten.relu.default", "call": torch.relu}, "torch has one already"),
)
