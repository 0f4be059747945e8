"""recommend: the choice in cases where there is little doubt, and what is said of it."""

import math
from dataclasses import replace

import pytest

from compile_lab.simulator.patterns import plan
from compile_lab.simulator.recommendation import Network, last_stage, recommend, traffic_s
from mini_model.model import GPT2_124M

SEVEN_B = replace(GPT2_124M, dim=4096, layers=32, heads=32, tied_head=False, context=2048)
SEVENTY_B = replace(SEVEN_B, dim=8192, layers=80, heads=64)


def names(found):
    return [choice.plan.pattern for choice in found.choices]


def test_what_fits_with_all_traffic_hidden_comes_before_what_waits():
    found = recommend(SEVEN_B, 8, 80e9, batch=32)
    best = found.choices[0]
    assert best.plan.pattern == "fsdp" and best.exposed_ms == 0
    assert "all traffic hidden" in best.why and "of 80 GB" in best.why
    assert [choice.step_ms for choice in found.choices] == sorted(choice.step_ms for choice in found.choices)


def test_a_model_whose_states_do_not_fit_is_not_replicated():
    found = recommend(SEVEN_B, 8, 80e9, batch=8)
    assert "ddp" not in names(found) and found.refused["ddp"].startswith("does not fit")
    assert "optimizer" in found.refused["ddp"]


def test_over_many_machines_sharding_stays_inside_one_if_it_fits():
    assert names(recommend(SEVEN_B, 1024, 80e9, batch=4096))[0] == "hsdp"
    assert names(recommend(SEVENTY_B, 1024, 80e9))[0] == "3d"


def test_a_fast_network_everywhere_brings_fsdp_back():
    fast = Network(across_bytes_per_s=3e12, inside_bytes_per_s=3e12)
    best = recommend(SEVEN_B, 1024, 60e9, batch=2048, network=fast).choices[0]
    assert best.plan.pattern in ("fsdp", "hsdp") and best.exposed_ms == 0


def test_nothing_fits_is_an_answer_with_reasons():
    found = recommend(SEVENTY_B, 8, 80e9)
    assert found.choices == () and len(found.refused) == 9
    assert all(why.startswith(("does not fit", "does not divide")) for why in found.refused.values())
    assert "does not divide: heads=12" in recommend(GPT2_124M, 8, 80e9).refused["tp"]


def test_traffic_is_charged_to_the_network_it_crosses():
    network = Network(inside_bytes_per_s=100.0, across_bytes_per_s=10.0)
    for devices, rate in ((8, 100.0), (16, 10.0)):
        found = plan(GPT2_124M, "fsdp", devices)
        assert traffic_s(found, network) == {"shard": pytest.approx(found.sent_nbytes / rate)}
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
    with pytest.raises(ValueError, match="flop_per_s is 0"):
        Network(flop_per_s=0)
    with pytest.raises(ValueError, match="precision='fp8'"):
        recommend(GPT2_124M, 8, 80e9, precision="fp8")


def test_the_last_stage_of_a_pipeline_has_the_head_besides_its_layers():
    assert last_stage(plan(GPT2_124M, "fsdp", 8)) == pytest.approx(1)
    block = 12 * GPT2_124M.dim**2 + 2 * GPT2_124M.dim * GPT2_124M.context
    stages = [6 * block, 6 * block + GPT2_124M.dim * GPT2_124M.vocabulary]
    assert last_stage(plan(GPT2_124M, "pp", 2)) == pytest.approx(stages[1] / (sum(stages) / 2))
