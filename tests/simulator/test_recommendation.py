"""recommend: the choice in cases where there is little doubt, and what is said of it."""

from dataclasses import replace

import pytest

from compile_lab.simulator.host import HostRates, issue_s
from compile_lab.simulator.patterns import plan
from compile_lab.simulator.recommendation import Network, estimate, recommend, traffic_s
from mini_model.model import GPT2_124M

SEVEN_B = replace(GPT2_124M, dim=4096, layers=32, heads=32, tied_head=False, context=2048)
SEVENTY_B = replace(SEVEN_B, dim=8192, layers=80, heads=64)


def names(found):
    return [choice.plan.pattern for choice in found.choices]


def test_over_many_machines_sharding_stays_inside_one_if_it_fits():
    assert names(recommend(SEVEN_B, 1024, 80e9, batch=4096))[0] == "hsdp"
    assert names(recommend(SEVENTY_B, 1024, 80e9, checkpointing=False))[0] == "fsdp", "a copy does not fit a machine"
    best = recommend(SEVENTY_B, 1024, 80e9).choices[0].plan
    assert best.pattern == "pp+fsdp" and best.checkpointing


def test_nothing_fits_is_an_answer_with_reasons():
    found = recommend(SEVENTY_B, 8, 80e9)
    assert found.choices == () and len(found.refused) == 9
    assert all(why.startswith(("does not fit", "does not divide")) for why in found.refused.values())
    assert "does not divide: heads=12" in recommend(GPT2_124M, 8, 80e9).refused["tp"]


@pytest.mark.parametrize(("mesh", "in_machine"), [
    ({"replicate": 2, "shard": 8}, {"replicate": 1, "shard": 8}),
    ({"replicate": 4, "shard": 4}, {"replicate": 2, "shard": 4}),
    ({"pp": 2, "shard": 4, "tp": 8}, {"pp": 1, "shard": 1, "tp": 8}),
    ({"shard": 32, "tp": 4}, {"shard": 2, "tp": 4}),
])  # fmt: skip
def test_inner_axes_fill_a_machine_first(mesh, in_machine):
    pattern = {2: {"replicate": "hsdp", "shard": "fsdp+tp"}.get(next(iter(mesh))), 3: "3d"}[len(mesh)]
    found = plan(SEVEN_B, pattern, mesh, batch=64)
    assert {axis: found.in_machine(axis) for axis in mesh} == in_machine


def test_hidden_traffic_is_paid_in_part_and_tensor_parallel_leaves_work_undivided():
    ddp, tp = (plan(SEVEN_B, name, 8, batch=64, precision="bf16") for name in ("ddp", "tp"))
    free, paid = (estimate(ddp, 1e12, Network(hidden=share)) for share in (0.0, 0.5))
    hidden = traffic_s(ddp, Network())["replicate"]
    assert free.exposed_ms == 0 and paid.exposed_ms == pytest.approx(500 * hidden)
    whole, part = (estimate(tp, 1e12, Network(repeated=share)).compute_ms for share in (0.0, 0.1))
    assert part / whole == pytest.approx(1 + 0.1 * 7)


def test_checkpoints_are_taken_where_a_pattern_fits_only_with_them():
    found = {each.plan.pattern: each for each in recommend(SEVEN_B, 8, 80e9, batch=64).choices}
    assert found["fsdp"].plan.checkpointing and "with checkpoints" in found["fsdp"].why
    assert not found["pp+fsdp"].plan.checkpointing
    assert "fsdp" in recommend(SEVEN_B, 8, 80e9, batch=64, checkpointing=False).refused
    assert not any(each.plan.checkpointing for each in recommend(GPT2_124M, 8, 80e9, batch=8).choices)


def test_a_stage_issues_its_layers_for_each_micro_batch_and_checkpoints_a_third_more():
    def issued(pattern, devices, **given):
        return issue_s(plan(GPT2_124M, pattern, devices, **given), HostRates(layer_s=1.0, tp_sp_layer_s=3.0))

    layers = GPT2_124M.layers
    assert issued("pp", 4, batch=8, microbatches=8) == layers / 4 * 8
    assert issued("one device", 1, checkpointing=True) == pytest.approx(layers * 4 / 3)
    assert issued("tp+sp", 4) == layers * (1 + 3)
