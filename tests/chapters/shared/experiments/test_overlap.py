"""The recording overlap: what it keeps of a timeline, its cases on real blocks, and what is predicted."""

import json

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

from chapters.shared.experiments import overlap as overlap_recording
from chapters.shared.experiments.overlap import FSDP_CASES, NOTHING_SENT, as_json, chosen, predicted, timeline
from compile_lab import recordings
from compile_lab.devices import ranks
from compile_lab.devices.overlap import on_the_wire
from compile_lab.simulator.overlap import Span, Transfer, overlap_of


def test_a_timeline_survives_being_kept_to_a_microsecond():
    sent = [Transfer("all_reduce", 3.00001, 6, 4000, 0.0), Transfer("all_gather", 7, 9, None, 0.0, 1)]
    found = overlap_of([Span(0, 4), Span(4.001, 4.5), Span(5, 8)], sent, {"forward": Span(0, 2)})
    again = timeline(json.loads(json.dumps(as_json(found))))
    assert [(each.name, each.nbytes, each.lane) for each in again.intervals] == [
        ("all_reduce", 4000, 0),
        ("all_gather", None, 1),
    ]
    assert again.exposed_ms == pytest.approx(found.exposed_ms, abs=0.01) and again.phases == found.phases
    assert len(again.compute) == 2, "a gap of a microsecond is closed"
    with pytest.raises(ValueError, match="what they take on the wire is not known"):
        timeline(as_json(found), waiting=False)


def test_a_timeline_is_kept_with_and_without_waiting():
    one, other = (
        overlap_of([Span(0, 4)], [Transfer("all_reduce", at, 6, 80, 0.0), Transfer("all_reduce", 6, 8, 40, 0.0)])
        for at in (1, 5)
    )
    kept = json.loads(json.dumps(as_json(one, on_the_wire([one, other])[0])))
    assert [each["wire_ms"] for each in kept["collectives"]] == [1, 2]
    assert timeline(kept).communication_ms == 7 and timeline(kept, waiting=False).communication_ms == 3
    assert [each.waiting_ms for each in timeline(kept).intervals] == [4, 0]
    assert timeline(kept).exposed_ms == 4 and timeline(kept, waiting=False).exposed_ms == 3


def fsdp_gathers():
    """For each case of FSDP, the collectives of a step, by name."""
    found = {}
    for name, (reshard, told) in FSDP_CASES.items():
        torch.manual_seed(0)
        model = nn.Sequential(*(nn.Linear(64, 64) for _ in range(3)))
        blocks = [fully_shard(block, reshard_after_forward=reshard) for block in model]
        fully_shard(model, reshard_after_forward=reshard)
        told(blocks)
        x = torch.randn(8, 64)
        profiled = overlap_recording.overlap_runs.profiled(lambda model=model, x=x: model(x).sum().backward())
        found[name] = [each.name for each in profiled.intervals]
    return found, dist.get_rank()


def test_resharding_gathers_every_block_twice_and_prefetching_no_more():
    for found, _ in ranks.run(fsdp_gathers, 2):
        gathers = {name: names.count("all_gather") for name, names in found.items()}
        assert gathers["FSDP2, not resharded after forward"] == 3
        assert all(gathers[name] == 6 for name, (reshard, _) in FSDP_CASES.items() if reshard)


def test_the_recording_keeps_what_was_predicted_and_communication_is_a_large_part_of_a_wide_models_step():
    result = recordings.load("overlap").result
    for alone in result["alone"]:
        setting = alone["batch"], alone["wide"], alone["through_host"]
        said = predicted(alone, overlap_recording.shape("cuda", alone["wide"]), alone["ranks"])
        assert {case: run["predicted"] for case, run in chosen(result, *setting).items()} == said | {NOTHING_SENT: None}
    for run in chosen(result, 1, wide=True).values():
        if run["case"] != NOTHING_SENT:
            assert all(0.2 < row["wire_ms"] / row["step_ms"] < 0.5 for row in run["by_rank"])
