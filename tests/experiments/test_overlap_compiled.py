"""The recording overlap_compiled: its cases on two CPU ranks send what their names say, and where it cannot be made."""

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

from compile_lab.devices import ranks
from compile_lab.devices.steps import profiled
from compile_lab.experiments import overlap_compiled, overlap_scheduled
from compile_lab.experiments.overlap import NOTHING_SENT

TRIED = ("DDP, cut at its buckets", "DDP, one graph", "FSDP, as it is", NOTHING_SENT)


def test_one_gpu_has_nobody_to_send_to(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(RuntimeError, match="at least 2 GPUs, and 1 is here"):
        overlap_compiled.record("cuda")


def test_what_only_a_gpu_is_estimated_for_is_tried_there_alone():
    assert set(overlap_compiled._cases("cuda", 2, None)) - set(overlap_compiled._cases("cpu", 2, None)) == {
        "FSDP, scheduled",
        "FSDP, scheduled in buckets",
    }


def test_what_is_scheduled_is_compared_with_plain_buckets_at_the_largest_batch(monkeypatch):
    monkeypatch.setattr(overlap_scheduled, "compared", lambda cases, device, batches, _: (cases, batches))
    cases, batches = overlap_scheduled.record("cuda")
    assert list(cases("cuda", 32, None)) == ["FSDP, 25 MB", "FSDP, scheduled", "FSDP, scheduled in buckets"]
    assert list(batches) == [32]


def one_is_refused(device, batch, mesh):
    def refused():
        raise RuntimeError("Unexpected option, known are " + "this, " * 100 + "\nand more")

    return {"refused": refused, "made": lambda: lambda: torch.ones(2) + 1}


@pytest.mark.slow
def test_a_case_that_torch_refuses_is_told_in_short_and_the_others_are_measured():
    made, refused = overlap_compiled.compared(one_is_refused, "cpu", [2], iter)["runs"]
    assert made["case"] == "made" and len(made["by_rank"]) == 2 and made["timeline"] is None
    assert refused["case"] == "refused" and set(refused) == {"ranks", "batch", "case", "stopped"}
    assert refused["stopped"].startswith("RuntimeError: Unexpected option, known are this, this,")
    assert refused["stopped"].endswith(" …") and len(refused["stopped"]) < 200


def sent_on_a_rank():
    """For each case that is tried, the collectives of a step, by name."""
    cases, found = overlap_compiled._cases("cpu", 2, init_device_mesh("cpu", (dist.get_world_size(),))), {}
    for name in TRIED:
        step = cases[name]()
        step(), step()  # before the second, DDP tells all ranks the order of its buckets
        found[name] = [each.name for each in profiled(step).intervals]
    return found


@pytest.mark.slow
def test_a_case_sends_what_its_name_says():
    one, other = ranks.run(sent_on_a_rank, 2, timeout=200)
    assert one == other
    assert one[NOTHING_SENT] == [] and {*one["DDP, one graph"], *one["DDP, cut at its buckets"]} == {"all_reduce"}
    gathered = one["FSDP, as it is"].count("all_gather")
    assert one["FSDP, as it is"].count("all_reduce") == gathered > 0, "gloo scatters sums as an all-reduce"
