"""What a program issues, pattern by pattern."""

import pytest

from compile_lab.simulator.host import HostRates, issue_s
from compile_lab.simulator.patterns import plan
from mini_model.model import GPT2_124M

RATES = HostRates(layer_s=1.0, bucket_s=10.0, gathered_s=100.0, tp_layer_s=2.0, tp_sp_layer_s=3.0)


def issued(pattern, devices, **given):
    return issue_s(plan(GPT2_124M, pattern, devices, **given), RATES)


def test_each_pattern_adds_what_it_issues():
    layers = GPT2_124M.layers
    assert issued("one device", 1) == layers
    for pattern, rate in (("ddp", 10.0), ("fsdp", 100.0)):
        sent = sum(each.count for each in plan(GPT2_124M, pattern, 4).busiest.collectives)
        assert issued(pattern, 4) == layers + sent * rate
    assert issued("ddp", 4, batch=4) == issued("ddp", 4, batch=400), "how much work there is does not matter"
    assert issued("tp", 4) == layers * (1 + 2) and issued("tp+sp", 4) == layers * (1 + 3)


def test_a_stage_issues_its_layers_for_each_micro_batch_and_checkpoints_a_third_more():
    assert issued("pp", 4, batch=8, microbatches=8) == GPT2_124M.layers / 4 * 8
    assert issued("one device", 1, checkpointing=True) == pytest.approx(GPT2_124M.layers * 4 / 3)
