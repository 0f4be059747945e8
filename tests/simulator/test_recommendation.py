"""recommend: the choice in cases where there is little doubt, and what is said of it."""

from dataclasses import replace

import pytest

from compile_lab.simulator.links import Links
from compile_lab.simulator.patterns import plan
from compile_lab.simulator.recommendation import Network, estimate, last_stage, recommend, traffic_s, update_s
from compile_lab.simulator.sharding import parameter_count
from mini_model.model import GPT2_124M

SEVEN_B = replace(GPT2_124M, dim=4096, layers=32, heads=32, tied_head=False, context=2048)
SEVENTY_B = replace(SEVEN_B, dim=8192, layers=80, heads=64)


def names(found):
    return [choice.plan.pattern for choice in found.choices]


def test_what_fits_with_all_traffic_hidden_comes_before_what_waits():
    found = recommend(SEVEN_B, 8, 80e9, batch=32)
    best = found.choices[0]
    sending_s = sum(traffic_s(best.plan, Network()).values())
    assert best.plan.pattern == "fsdp" and best.exposed_ms == pytest.approx(1e3 * Network().hidden * sending_s)
    assert "% of it for messages" in best.why and "of 80 GB" in best.why
    free = recommend(SEVEN_B, 8, 80e9, batch=32, network=Network(hidden=0.0)).choices[0]
    assert free.exposed_ms == 0 and "all traffic hidden" in free.why
    assert [choice.step_ms for choice in found.choices] == sorted(choice.step_ms for choice in found.choices)


def test_a_model_whose_states_do_not_fit_is_not_replicated():
    found = recommend(SEVEN_B, 8, 80e9, batch=8)
    assert "ddp" not in names(found) and found.refused["ddp"].startswith("does not fit")
    assert "optimizer" in found.refused["ddp"]


def test_over_many_machines_sharding_stays_inside_one_if_it_fits():
    assert names(recommend(SEVEN_B, 1024, 80e9, batch=4096))[0] == "hsdp"
    assert names(recommend(SEVENTY_B, 1024, 80e9, checkpointing=False))[0] == "fsdp", "a copy does not fit a machine"
    best = recommend(SEVENTY_B, 1024, 80e9).choices[0].plan
    assert best.pattern == "pp+fsdp" and best.checkpointing


def test_a_fast_network_does_not_shorten_the_rings_of_fsdp():
    exposed = []
    for network in (Network(), Network(Links(3e12, 3e12))):
        best, *others = recommend(SEVEN_B, 1024, 60e9, batch=2048, network=network).choices
        (sliced,) = [each for each in others if each.plan.pattern == "fsdp"]
        assert best.plan.pattern == "hsdp" and sliced.exposed_ms > 4 * best.exposed_ms
        exposed.append(best.exposed_ms)
    assert exposed[1] < exposed[0] / 5


def test_nothing_fits_is_an_answer_with_reasons():
    found = recommend(SEVENTY_B, 8, 80e9)
    assert found.choices == () and len(found.refused) == 9
    assert all(why.startswith(("does not fit", "does not divide")) for why in found.refused.values())
    assert "does not divide: heads=12" in recommend(GPT2_124M, 8, 80e9).refused["tp"]


def test_traffic_is_charged_to_the_links_it_crosses():
    links = Links(100.0, 10.0)  # so slow that no latency counts
    network = Network(links)
    for devices in (8, 16, 24):
        found = plan(replace(GPT2_124M, heads=24), "fsdp", devices)
        rate = links.bytes_per_s("all_gather", devices, 8)
        assert traffic_s(found, network) == {"shard": pytest.approx(found.sent_nbytes / rate, rel=1e-3)}
    both = plan(GPT2_124M, "hsdp", 16)
    assert both.inside_machine("shard") and not both.inside_machine("replicate")
    (copied,) = [each for each in both.busiest.collectives if each.axis == "replicate"]
    one_card_s = copied.sent_nbytes / (0.9 * 10.0)
    assert traffic_s(both, network)["replicate"] == pytest.approx(one_card_s, rel=1e-3), "one device of a machine"


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


def test_the_optimizer_goes_over_what_a_device_holds():
    one, eight = (plan(SEVEN_B, *each, batch=8) for each in (("one device", 1), ("fsdp", 8)))
    numbers = parameter_count(SEVEN_B)
    assert update_s(one, Network()) == pytest.approx(28 * numbers / 2.7e12)
    assert update_s(eight, Network()) == pytest.approx(update_s(one, Network()) / 8, rel=1e-3)


def test_the_last_stage_of_a_pipeline_has_the_head_besides_its_layers():
    assert last_stage(plan(GPT2_124M, "fsdp", 8)) == pytest.approx(1)
    block = 12 * GPT2_124M.dim**2 + 2 * GPT2_124M.dim * GPT2_124M.context
    stages = [6 * block, 6 * block + GPT2_124M.dim * GPT2_124M.vocabulary]
    assert last_stage(plan(GPT2_124M, "pp", 2)) == pytest.approx(stages[1] / (sum(stages) / 2))


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


def test_with_little_work_the_program_is_the_step_and_a_program_never_late_is_not():
    (eager, *_), (never, *_) = (
        recommend(GPT2_124M, 8, 80e9, batch=8, network=network).choices for network in (Network(), Network(host=None))
    )
    assert eager.plan.pattern == "ddp" and eager.step_ms == eager.issued_ms > eager.device_ms
    assert "which Python takes to issue it" in eager.why
    assert never.issued_ms == 0 and never.step_ms == never.device_ms
