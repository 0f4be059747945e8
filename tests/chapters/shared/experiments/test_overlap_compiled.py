"""The recording overlap_compiled: its cases on two CPU ranks send what their names say, and where it cannot be made."""

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

from chapters.shared.experiments import overlap, overlap_compiled
from chapters.shared.experiments.overlap import NOTHING_SENT
from compile_lab.devices import ranks
from compile_lab.devices.steps import profiled

TRIED = ("DDP, cut at its buckets", "DDP, one graph", "FSDP, as it is", "FSDP2, compiled", NOTHING_SENT)


@pytest.mark.parametrize("recording", [overlap, overlap_compiled])
def test_one_gpu_has_nobody_to_send_to(recording, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(RuntimeError, match="at least 2 GPUs, and 1 is here"):
        recording.record("cuda")


def one_is_refused(device, batch, mesh):
    def refused():
        raise RuntimeError("Unexpected option, known are " + "this, " * 100 + "\nand more")

    return {"refused": refused, "made": lambda: lambda: torch.ones(()) + 1}


@pytest.mark.slow
def test_a_case_that_torch_refuses_is_told_in_short_and_the_others_are_measured():
    made, refused = overlap_compiled.compared(one_is_refused, "cpu", [2], iter)["runs"]
    assert made["case"] == "made" and len(made["by_rank"]) == 2 and made["timeline"] is None
    assert made["losses"] == [2.0] * overlap_compiled.LOSSES and made["rise_nbytes"] is None
    assert refused["case"] == "refused" and set(refused) == {"ranks", "batch", "case", "stopped"}
    assert refused["stopped"].startswith("RuntimeError: Unexpected option, known are this, this,")
    assert refused["stopped"].endswith(" …") and len(refused["stopped"]) < 200


def sent_on_a_rank():
    """For each case that is tried, the collectives of a step, by name, and the losses of two steps."""
    cases, found = overlap_compiled._cases("cpu", 2, init_device_mesh("cpu", (dist.get_world_size(),))), {}
    for name in TRIED:
        step = cases[name]()
        losses = [float(step()), float(step())]  # before the second, DDP tells all ranks the order of its buckets
        found[name] = [each.name for each in profiled(step).intervals], losses
    return found


@pytest.mark.slow
def test_a_case_sends_what_its_name_says_and_trains_the_same_model():
    one, other = ranks.run(sent_on_a_rank, 2, timeout=600)
    assert one == other
    sent = {name: found for name, (found, _) in one.items()}
    assert sent[NOTHING_SENT] == [] and {*sent["DDP, one graph"], *sent["DDP, cut at its buckets"]} == {"all_reduce"}
    gathered = sent["FSDP, as it is"].count("all_gather")
    assert sent["FSDP, as it is"].count("all_reduce") == gathered > 0, "gloo scatters sums as an all-reduce"
    assert 0 < len(sent["FSDP2, compiled"]) < gathered, "FSDP2 gathers a block's weights together"
    first = one["DDP, one graph"][1]
    assert all(losses == pytest.approx(first, abs=1e-3) for _, losses in one.values())
