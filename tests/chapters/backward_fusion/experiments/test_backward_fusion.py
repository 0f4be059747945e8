"""Backward fusion measured: what the recording holds, tried on a CPU at small sizes, and how it is shown."""

import json

import pytest
import torch
from torch import nn

from chapters.backward_fusion.experiments import backward_fusion_view as view
from chapters.backward_fusion.experiments.backward_fusion import record
from chapters.backward_fusion.experiments.fused_chain import Case, compile_both, gradient_errors
from compile_lab.capture import NotCompiledError
from compile_lab.measure import timing
from compile_lab.measure.kernels import kernel_times, kind_of_kernel

pytestmark = pytest.mark.processes

TINY = Case("norm of gelu", 16, 8, 12, "fp32")


def is_a_spread(row):
    return 0 < row["low_us"] <= row["median_us"] <= row["high_us"]


@pytest.fixture(scope="module")
def tried():
    """The recording of one small case."""
    found = record("cpu", cases=[TINY])
    assert json.loads(json.dumps(found)) == found and found["copy_gb_per_s"] > 0
    return found


@pytest.mark.slow
def test_a_case_is_measured_in_both_directions(tried):
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


def test_kernels_are_told_apart_by_their_names():
    assert kind_of_kernel("triton_red_fused_sum_2") == "generated"
    assert kind_of_kernel("nvjet_tst_192x192_64x4_1x2_h_bz_coopB_NNT") == "matmul"
    assert kind_of_kernel("void cutlass::Kernel2<cutlass_80_simt_sgemm_128x128_8x4_nn_align1>(…)") == "matmul"
    assert kind_of_kernel("void at::native::reduce_kernel<128, 4, at::native::ReduceOp<float>>") == "aten"


def test_without_a_gpu_no_kernel_is_timed():
    if not torch.cuda.is_available():
        assert kernel_times(lambda one: one, [1]) == []


def recorded():
    def one(us, *kernels):
        kernels = [{"name": n, "kind": kind_of_kernel(n), "count": c, "us": t} for n, c, t in kernels]
        return {"median_us": us, "low_us": us - 1, "high_us": us + 1, "kernels": kernels}

    eager = {
        "forward": one(50.0, ("nvjet_a", 1, 20.0)),
        "backward": one(80.0, ("nvjet_a", 2, 40.0), ("void at::native::GeluBackwardCUDAKernelImpl<4>", 1, 40.0)),
    }
    compiled = {
        "forward": one(40.0, ("nvjet_a", 1, 20.0)),
        "backward": one(100.0, ("nvjet_a", 2, 40.0), ("triton_per_fused_0", 2, 60.0)),
        "generated": {"backward": [{"name": "triton_per_fused_0", "nbytes": 30_000_000}] * 2},
        "loaded": [{"name": "triton_per_fused_0", "registers": 255, "spills": 3, "configuration": {"num_warps": 8}}],
    }
    products = {"forward": one(20.0), "backward": one(40.0)}
    sizes = {"chain": "norm of gelu", "rows": 16384, "d_in": 1024, "d_out": 4096, "dtype": "bf16"}
    return sizes | {"matmul": products, "variants": {"eager": eager, "compiled": compiled}}


def test_a_case_is_shown_with_its_ratio_and_each_kernel_with_its_rate():
    case = recorded()
    assert view.change(case) == "slower" and view.change(case, "forward") == "faster"
    assert view.change(case, variant="eager") == "no difference"
    assert "0.80×" in repr(view.times([case], "backward", "here"))
    assert view.told(case, "backward") == "0.80×" and view.told(case, "backward", "eager") == "not told apart"
    shown = view.kernels(case, "backward", 4000.0)
    (rate,) = {row[-1] for row in shown.rows if row[1].source.startswith("per_fused")}
    assert rate == "25%", "60 MB in 60 µs are 1000 GB/s, a quarter of a copy's"
    assert view.by_kind(case, "backward")["compiled"] == {"matmul": (2, 40.0), "generated": (2, 60.0)}
    assert view.launched(case, "backward", "eager") == 3
    assert view.floor_us(case, 4000.0) == pytest.approx(3 * 16384 * 4096 * 2 / 4e12 * 1e6)
    assert view.busy_us(case, "backward", "eager", matmuls=False) == 40.0
    assert view.outside([case], 4000.0, "here").rows[0][1:4] == [40.0, 60.0, "0.67×"]
    assert view.busy([case], "backward", "here").rows[0][-1] == "0.80×"
    said, table, kernels = view.panel(case, 4000.0, "here")
    assert "16,384 × 1024 → 4096, bf16" in said and len(table.rows) == 4 and len(kernels.rows) == 4


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        (
            "void at::native::(anonymous namespace)::layer_norm_grad_input_kernel<float>(int)",
            "layer_norm_grad_input_kernel",
        ),
        ("void at::native::vectorized_elementwise_kernel<4, at::native::GeluBackwardCUDAKernelImpl(a)", "GeluBackward"),
        ("nvjet_tst_192x192_64x4", "nvjet_tst_192x192_64x4"),
        ("triton_red_fused_sum_2", "red_fused_sum_2"),
    ],
)
def test_a_kernels_name_is_read_in_few_letters(name, plain):
    assert view.readable(name) == plain
