"""recommend: the choice in cases where there is little doubt, and what is said of it."""

import math
from dataclasses import replace

import pytest

from compile_lab.simulator.patterns import plan
from compile_lab.simulator.recommendation import Network, estimate, last_stage, recommend, traffic_s
from mini_model.model import GPT2_124M

SEVEN_B = replace(GPT2_124M, dim=4096, layers=32, heads=32, tied_head=False, context=2048)
SEVENTY_B = replace(SEVEN_B, dim=8192, layers=80, heads=64)


def names(found):
    return [choice.plan.pattern for choice in found.choices]


def test_what_fits_with_all_traffic_hidden_comes_before_what_waits():
    found = recommend(SEVEN_B, 8, 80e9, batch=32)
    best = found.choices[0]
    assert best.plan.pattern == "fsdp" and 0 < best.exposed_ms < 0.12 * best.compute_ms
    assert "% of it for messages" in best.why and "of 80 GB" in best.why
    free = recommend(SEVEN_B, 8, 80e9, batch=32, network=Network(beside=0.0)).choices[0]
    assert free.exposed_ms == 0 and "all traffic hidden" in free.why
    assert [choice.step_ms for choice in found.choices] == sorted(choice.step_ms for choice in found.choices)


def test_a_model_whose_states_do_not_fit_is_not_replicated():
    found = recommend(SEVEN_B, 8, 80e9, batch=8)
    assert "ddp" not in names(found) and found.refused["ddp"].startswith("does not fit")
    assert "optimizer" in found.refused["ddp"]


def test_over_many_machines_sharding_stays_inside_one_if_it_fits():
    assert names(recommend(SEVEN_B, 1024, 80e9, batch=4096))[0] == "hsdp"
    assert names(recommend(SEVENTY_B, 1024, 80e9, checkpointing=False))[0] == "3d"
    best = recommend(SEVENTY_B, 1024, 80e9).choices[0].plan
    assert best.pattern == "fsdp+tp" and best.checkpointing, "checkpoints save an axis"


def test_a_fast_network_everywhere_brings_fsdp_back():
    fast = Network(across_bytes_per_s=3e12, inside_bytes_per_s=3e12)
    best = recommend(SEVEN_B, 1024, 60e9, batch=2048, network=fast).choices[0]
    assert best.plan.pattern in ("fsdp", "hsdp") and best.exposed_ms < 0.05 * best.compute_ms


def test_nothing_fits_is_an_answer_with_reasons():
    found = recommend(SEVENTY_B, 8, 80e9)
    assert found.choices == () and len(found.refused) == 9
    assert all(why.startswith(("does not fit", "does not divide")) for why in found.refused.values())
    assert "does not divide: heads=12" in recommend(GPT2_124M, 8, 80e9).refused["tp"]


def test_traffic_is_charged_to_the_network_it_crosses():
    network = Network(inside_bytes_per_s=100.0, across_bytes_per_s=10.0)
    for devices, rate in ((8, 100.0), (16, 10.0)):
        found = plan(GPT2_124M, "fsdp", devices)
        floors = 40e-6 * sum(each.count for each in found.busiest.collectives)
        assert traffic_s(found, network) == {"shard": pytest.approx(found.sent_nbytes / rate + floors)}
    both = plan(GPT2_124M, "hsdp", 16)
    assert both.inside_machine("shard") and not both.inside_machine("replicate")


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match="memory_nbytes=0"):
        recommend(GPT2_124M, 8, 0)
    with pytest.raises(ValueError, match="memory_nbytes=nan"):
        recommend(GPT2_124M, 8, math.nan)
    for rate in (-1, 0, math.nan, math.inf):
        with pytest.raises(ValueError, match=f"inside_bytes_per_s is {rate}: a rate is a number above 0"):
            Network(rate)
    for name in ("floor_s", "beside", "repeated"):
        with pytest.raises(ValueError, match=f"Network.{name} is -1.0: it is 0 or more"):
            Network(**{name: -1.0})
    with pytest.raises(ValueError, match="flop_per_s is 0"):
        Network(flop_per_s=0)
    with pytest.raises(ValueError, match="precision='fp8'"):
        recommend(GPT2_124M, 8, 80e9, precision="fp8")


def test_the_last_stage_of_a_pipeline_has_the_head_besides_its_layers():
    assert last_stage(plan(GPT2_124M, "fsdp", 8)) == pytest.approx(1)
    block = 12 * GPT2_124M.dim**2 + 2 * GPT2_124M.dim * GPT2_124M.context
    stages = [6 * block, 6 * block + GPT2_124M.dim * GPT2_124M.vocabulary]
    assert last_stage(plan(GPT2_124M, "pp", 2)) == pytest.approx(stages[1] / (sum(stages) / 2))


def test_hidden_traffic_is_paid_in_part_and_tensor_parallel_leaves_work_undivided():
    ddp, tp = (plan(SEVEN_B, name, 8, batch=64, precision="bf16") for name in ("ddp", "tp"))
    free, paid = (estimate(ddp, 1e12, Network(beside=share)) for share in (0.0, 0.5))
    hidden = traffic_s(ddp, Network())["replicate"]
    assert free.exposed_ms == 0 and paid.exposed_ms == pytest.approx(500 * hidden)
    whole, part = (estimate(tp, 1e12, Network(repeated=share)).compute_ms for share in (0.0, 0.1))
    assert part / whole == pytest.approx(1 + 0.1 * 7)


def test_checkpoints_are_taken_where_a_pattern_fits_only_with_them():
    found = {each.plan.pattern: each for each in recommend(SEVEN_B, 8, 80e9, batch=64).choices}
    assert found["fsdp"].plan.checkpointing and "with checkpoints" in found["fsdp"].why
    assert found["pp+fsdp"].step_ms < found["fsdp"].step_ms and not found["pp+fsdp"].plan.checkpointing
    assert "fsdp" in recommend(SEVEN_B, 8, 80e9, batch=64, checkpointing=False).refused
    assert not any(each.plan.checkpointing for each in recommend(GPT2_124M, 8, 80e9, batch=8).choices)


def test_with_little_work_the_program_is_the_step_and_a_program_never_late_is_not():
    (eager, *_), (never, *_) = (
        recommend(GPT2_124M, 8, 80e9, batch=8, network=network).choices for network in (Network(), Network(host=None))
    )
    assert eager.plan.pattern == "ddp" and eager.step_ms == eager.issued_ms > eager.device_ms
    assert "which Python takes to issue it" in eager.why
    assert never.issued_ms == 0 and never.step_ms == never.device_ms
