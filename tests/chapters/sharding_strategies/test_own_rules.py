"""Rules of one's own: a refused operator runs and is right, a wrong rule is caught, and none is left behind."""

import pytest
import torch

from chapters.sharding_strategies.own_rules import (
    cdist_rule,
    judge_rule,
    registered,
    resolved,
    scatter_amax_rule,
    wrong_cumsum_rule,
)
from chapters.sharding_strategies.own_rules_view import judged
from compile_lab.devices.collectives import pretended
from compile_lab.devices.dtensor import PlacedCall


def _value_at(rows, layout):
    return {row.kind for row in rows if (row.layout, row.asked) == (layout, "value")}


def test_a_refused_operator_gets_a_rule_and_is_right():
    args = torch.arange(16.0, dtype=torch.float64).reshape(8, 2), torch.eye(2, dtype=torch.float64)
    calls = [PlacedCall(torch.cdist, args, layout) for layout in (("S(0)", "R"), ("R", "S(0)"), ("S(0)", "S(0)"))]
    found = judge_rule("aten._cdist_forward.default", cdist_rule, calls)
    assert [row.kind for row in found.before] == ["refused"] * 3
    assert [row.kind for row in found.after] == ["free", "free", "paid"] and not found.wrong
    assert [row[2:] for row in judged(found).rows][:1] == [("refused", None, "free", None)]


@pytest.mark.slow
def test_the_audit_s_own_cases_judge_a_rule():
    found = judge_rule("aten._cdist_forward.default", cdist_rule, "cdist", samples=1)
    assert _value_at(found.before, "S(0)") == {"refused"} and not found.wrong
    assert _value_at(found.after, "S(0)") <= {"free", "paid"} and _value_at(found.after, "S(0)")


def test_a_source_that_is_cut_leaves_a_partial_maximum():
    def largest(x, index, source):
        return x.scatter_reduce(0, index, source, "amax")

    torch.manual_seed(0)
    args = torch.zeros(6, 4, dtype=torch.float64), torch.randint(0, 6, (8, 4)), torch.randn(8, 4, dtype=torch.float64)
    calls = [PlacedCall(largest, args, layout) for layout in (("R", "S(0)", "S(0)"), ("S(1)",) * 3)]
    found = judge_rule("aten.scatter_reduce.two", scatter_amax_rule, calls)
    assert [(row.layout, row.kind) for row in found.after] == [("R, S(0), S(0)", "free"), ("S(1), S(1), S(1)", "free")]
    assert {row.kind for row in found.before} == {"refused"}


def test_a_wrong_rule_is_believed_by_dtensor_and_caught_here():
    x = torch.arange(1.0, 9.0, dtype=torch.float64).reshape(4, 2)
    calls = [PlacedCall(torch.cumsum, (x,), (word,), {"dim": 0}) for word in ("R", "S(0)", "S(1)")]
    found = judge_rule("aten.cumsum.default", wrong_cumsum_rule, calls)
    assert [(row.layout, row.what) for row in found.wrong] == [("S(0)", "value")]
    assert all(row.kind in ("free", "paid") for row in found.before)
    assert found.counts()["wrong"] == (0, 1)


def test_the_rule_and_its_decisions_are_gone_afterwards():
    from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh

    with pretended(2):
        mesh = init_device_mesh("cpu", (2,))
        x = distribute_tensor(torch.ones(4, 2), mesh, [Shard(0)], src_data_rank=None)
        before = x.cumsum(0).placements
        with registered("aten.cumsum.default", wrong_cumsum_rule):
            inside = x.cumsum(0).placements
        assert x.cumsum(0).placements == before != inside == (Shard(0),)


def test_what_is_no_operator_or_no_case_is_refused():
    with pytest.raises(ValueError, match=r"torch has no operator aten.cumsum.other; there are default"):
        resolved("aten.cumsum.other")
    with pytest.raises(ValueError, match="library, operator, variant"):
        judge_rule("cumsum", wrong_cumsum_rule, "cumsum")
    with pytest.raises(ValueError, match="no operator of torch's table matches"):
        judge_rule("aten.cumsum.default", wrong_cumsum_rule, "cumsumm")
