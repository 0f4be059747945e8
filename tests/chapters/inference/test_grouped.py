"""Grouped products: equal to a loop, and which function the generated code calls."""

import pytest
import torch

from chapters.inference.grouped import (
    judged_by_float64,
    layer_runs,
    subject,
)


def test_loop_and_product_agree_and_the_judge_sees_a_wrong_answer():
    loop, x = subject(32, 64, 4, 24, "loop")
    grouped, _ = subject(32, 64, 4, 24, "grouped")
    y = grouped(x)
    torch.testing.assert_close(y, loop(x))
    assert judged_by_float64(grouped, x, y) < 0.01 < 0.5 < judged_by_float64(grouped, x, -y)


@pytest.mark.slow
def test_generated_code_calls_the_fallback_in_python_in_cpp_and_in_a_package():
    compiled, wrapper, package = layer_runs(
        tokens=32, experts=2, width=32, hidden=32, ways=("grouped",), modes=("compiled", "C++ wrapper", "AOTInductor")
    )
    assert compiled.calls == ("extern_kernels._grouped_mm",)
    assert wrapper.calls == package.calls == ("aoti_torch_cpu__grouped_mm",) and package.through_proxy == 0
    assert all(run.error < 0.01 and not run.stopped for run in (compiled, wrapper, package))
