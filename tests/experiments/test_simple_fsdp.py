"""The recording simple_fsdp: what it keeps of each way, what it tells of those that fail, and where it is refused."""

import json

import pytest
import torch

from compile_lab.devices.ranks import RankFailed
from compile_lab.experiments import simple_fsdp
from compile_lab.experiments.overlap import timeline
from compile_lab.experiments.simple_fsdp import ShardedRuns, _said, record, ways


@pytest.mark.slow
def test_both_kinds_of_fsdp_find_the_same_gradients_and_one_sends_each_parameter_alone():
    kept = json.loads(json.dumps(record("cpu", names=("FSDP2", "SimpleFSDP, eager"), budget_s=120)))
    assert not kept["stopped"] and kept["ranks"] == 2
    runs = {run["way"]: run for run in kept["runs"]}
    assert runs["FSDP2"]["loss"] == pytest.approx(runs["SimpleFSDP, eager"]["loss"], rel=1e-6)
    sent = {}
    for name, run in runs.items():
        assert run["gradient_error"] < 1e-6 and len(run["by_rank"]) == 2 and run["graphs"] == []
        assert all(row["low_ms"] <= row["step_ms"] <= row["high_ms"] for row in run["by_rank"])
        seen = timeline(run["timeline"]).intervals
        sent[name] = [sum(each.nbytes for each in seen if each.name == "all_gather"), len(seen)]
    # A span of gloo's tells what a rank gives. FSDP2 gathers its blocks once more for the backward, together.
    model = simple_fsdp._gpt("cpu")
    given = sum(each.nbytes for each in model.parameters()) / 2
    blocks = sum(each.nbytes for each in model.blocks.parameters()) / 2
    assert sent["SimpleFSDP, eager"][0] == given and sent["FSDP2"][0] == pytest.approx(given + blocks, rel=0.01)
    assert sent["SimpleFSDP, eager"][1] == 2 * len(list(model.parameters())) > 3 * sent["FSDP2"][1]


def test_without_time_nothing_is_begun_and_each_way_says_so(monkeypatch):
    asked = []

    def run(function, ranks, device, names, until, **more):
        asked.append(names)
        return [ShardedRuns(stopped=dict.fromkeys(names, "not begun: the time given was over"))] * ranks

    monkeypatch.setattr(simple_fsdp.ranks, "run", run)
    kept = record("cpu", budget_s=0)
    assert kept["runs"] == [] and [each["way"] for each in kept["stopped"]] == list(ways("cpu")) == asked[0]


def test_ranks_that_come_to_no_end_are_tried_without_what_may_have_held_them(monkeypatch):
    asked = []

    def run(function, ranks, device, names, until, **more):
        asked.append(names)
        if len(asked) == 1:
            raise RankFailed("rank 1 of 2 failed, and the others were ended.\n  a frame\nRuntimeError: out of luck", 1)
        return [ShardedRuns()] * ranks

    monkeypatch.setattr(simple_fsdp.ranks, "run", run)
    kept = record("cpu", names=("FSDP2", "scheduled"))
    assert asked == [["FSDP2", "scheduled"], ["FSDP2"]]
    (told,) = kept["stopped"]
    assert told["way"] == "FSDP2, scheduled" and told["why"].endswith("ended. … RuntimeError: out of luck")


@pytest.mark.slow
def test_a_way_that_fails_is_told_and_the_others_are_measured():
    kept = record("cpu", names=("scheduled", "FSDP2"), budget_s=200)
    assert [run["way"] for run in kept["runs"]] == ["FSDP2"]
    (told,) = kept["stopped"]
    assert told["way"] == "scheduled" and len(told["why"]) > 20, "Inductor estimates for GPUs alone"


def test_what_cannot_be_recorded_is_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(RuntimeError, match="needs 2 GPUs, and 1 is here"):
        record("cuda")
    with pytest.raises(KeyError, match="nonsense"):
        record("cpu", names=("nonsense",))


def test_an_error_is_told_in_one_line_of_bounded_length():
    assert _said(ValueError("\n  first\nsecond")) == "ValueError: first"
    assert len(_said(ValueError("x" * 1000))) == 300


def test_every_compiled_way_keeps_its_guards_to_itself(monkeypatch):
    compiled = []
    monkeypatch.setattr(torch, "compile", lambda fn, **_: compiled.append(fn) or fn)
    model = len
    assert simple_fsdp._run_of(model, None) is model and not compiled
    for _ in range(2):
        simple_fsdp._run_of(model, {})
    assert compiled[0].__code__ is not compiled[1].__code__
