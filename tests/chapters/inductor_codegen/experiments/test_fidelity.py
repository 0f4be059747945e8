"""Fidelity: what counts as the same kernel, and that comparing needs a real GPU. On a GPU it compares for real."""

import pytest
import torch
from torch import nn

from chapters.inductor_codegen.experiments.fidelity import compared, record, twin
from compile_lab.inductor.generated import GeneratedCode
from compile_lab.inductor.records import InductorGraph, Kernel
from compile_lab.recordings import RecordingError, here


def code(*kernels):
    kernels = tuple(Kernel(name, source, language, "forward", (), 0) for name, source, language in kernels)
    return GeneratedCode((InductorGraph("forward", (), kernels, (), (), (), "", "", ()),), None, here("test"))


def test_only_the_hash_that_names_the_machine_may_differ():
    real = code(("k", "a {'backend_hash': 'AB12', 'num_load': 2}", "triton"))
    elsewhere = code(("k", "a {'backend_hash': 'CD34', 'num_load': 2}", "triton"))
    other = code(("k", "a {'backend_hash': 'CD34', 'num_load': 3}", "triton"))
    (same,), (differs,) = compared(real, elsewhere), compared(real, other)
    assert (same["kernels"], same["identical"], same["differing"]) == (1, 1, [])
    assert differs["identical"] == 0 and "num_load" in differs["differing"][0]["diff"]


def test_a_missing_kernel_and_another_library_call_are_seen():
    real = code(("k", "a", "triton"), ("extern_kernels.mm", "call", "extern"))
    virtual = code(("l", "a", "triton"), ("extern_kernels.bmm", "call", "extern"))
    (found,) = compared(real, virtual)
    assert (found["kernels"], found["identical"], found["calls"], found["same_calls"]) == (2, 0, 1, False)
    assert [one["diff"] for one in found["differing"]] == ["only on the real chip", "only on the virtual chip"]


def test_without_a_gpu_there_is_nothing_to_compare_with_and_nothing_is_built(monkeypatch):
    with pytest.raises(RecordingError, match="here is no GPU"):
        record("cpu", progress=lambda steps: pytest.fail("it began"))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(RecordingError, match="no GPU"):
        twin("cuda")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_beside_a_real_gpu_the_virtual_one_writes_the_same_kernels():
    model = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.LayerNorm(128)).cuda()
    found = record("cuda", calls={"model": (model, (torch.randn(8, 64, device="cuda"),))})
    assert found["identical"] == found["kernels"] > 0, found["cases"]
