"""Backward fusion measured: what the recording holds, tried on a CPU at small sizes, and how it is shown."""

import json

import pytest
import torch
from torch import nn

from chapters.backward_fusion.experiments.backward_fusion import record
from chapters.backward_fusion.experiments.fused_chain import Case, compile_both, gradient_errors
from compile_lab.capture import NotCompiledError
from compile_lab.measure import timing
from compile_lab.measure.kernels import kind_of_kernel

pytestmark = pytest.mark.processes

TINY = Case("norm of gelu", 16, 8, 12, "fp32")


def is_a_spread(row):
    return 0 < row["low_us"] <= row["median_us"] <= row["high_us"]


@pytest.mark.slow
def test_a_case_is_measured_in_both_directions():
    tried = record("cpu", cases=[TINY])
    assert json.loads(json.dumps(tried)) == tried and tried["copy_gb_per_s"] > 0
    (found,) = tried["cases"]
    assert set(found["variants"]) == {"eager", "compiled"}, "only a GPU's code reduces both ways at once"
    for variant in found["variants"].values():
        assert is_a_spread(variant["forward"]) and is_a_spread(variant["backward"])
        assert set(variant["errors"]) == {"0.weight", "0.bias", "2.weight", "2.bias", "input 0"}
        assert max(variant["errors"].values()) < 1e-5
    written = found["variants"]["compiled"]["generated"]
    assert "addmm" in written["forward"][0]["name"] and len(written["backward"]) >= 3
    assert is_a_spread(found["matmul"]["forward"]) and is_a_spread(found["matmul"]["backward"])


def test_code_that_did_not_run_compiled_is_refused():
    module, inputs, gradient = TINY.built("cpu")
    with torch.compiler.set_stance("force_eager"), pytest.raises(NotCompiledError):
        compile_both(module, inputs, gradient, {})


def test_a_function_that_breaks_is_refused():
    class Breaks(nn.Linear):
        def forward(self, x):
            y = super().forward(x)
            torch._dynamo.graph_break()
            return super().forward(y)

    x = torch.ones(2, 4, requires_grad=True)
    with pytest.raises(NotCompiledError, match="4 graphs"):
        compile_both(Breaks(4, 4), (x,), torch.ones(2, 4), {})


def test_the_backward_is_timed_without_its_forward(clock):
    def prepare():
        clock.passes(0.02)
        return 0.001

    taken = timing.prepared_samples_us(prepare, clock.passes, "cpu", samples=3, most=1)
    assert taken == pytest.approx([1000] * 3)


def test_random_functions_have_no_exact_gradients():
    with pytest.raises(ValueError, match="no dropout"):
        gradient_errors(Case("residual", 4, 4, 4, "fp32"), "cpu")


KINDS = {
    "triton_red_fused_sum_2": "generated",
    "nvjet_tst_192x192_64x4_1x2_h_bz_coopB_NNT": "matmul",
    "void cutlass::Kernel2<cutlass_80_simt_sgemm_128x128_8x4_nn_align1>(…)": "matmul",
    "void at::native::reduce_kernel<128, 4, at::native::ReduceOp<float>>": "aten",
}


def test_kernels_are_told_apart_by_their_names():
    assert {name: kind_of_kernel(name) for name in KINDS} == KINDS
