"""The recording overlap_compiled: its cases on two CPU ranks send what their names say, and where it cannot be made."""

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

from compile_lab.devices import ranks
from compile_lab.devices.steps import profiled
from compile_lab.experiments import overlap_compiled
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
