"""Grouped products: equal to a loop, trusted inputs, and which function the generated code calls."""

import pytest
import torch

from chapters.inference.grouped import (
    ExpertLayer,
    grouped_traps,
    judged_by_float64,
    layer_runs,
    subject,
)
from chapters.inference.grouped_view import LayerCost, by_tokens, recorded, runs_table, traps_table
from compile_lab.recordings import Provenance, Recording

HERE = Provenance("a CPU", "2.13", None, None, "2026-11-23", "a test", "live")


def test_grouped_trusts_its_offsets():
    good, wide, unsorted, short = grouped_traps()
    assert not good.said and good.wrong_rows == 0
    assert wide.said == "Offsets have to be int32"
    assert not unsorted.said and unsorted.wrong_rows > 0
    assert not short.said and short.wrong_rows <= 4, "the rows after the last group are whatever lay in memory"
    assert "nothing" in str(traps_table([short]))


def test_loop_and_product_agree_and_the_judge_sees_a_wrong_answer():
    loop, x = subject(32, 64, 4, 24, "loop")
    grouped, _ = subject(32, 64, 4, 24, "grouped")
    y = grouped(x)
    torch.testing.assert_close(y, loop(x))
    assert judged_by_float64(grouped, x, y) < 0.01 < 0.5 < judged_by_float64(grouped, x, -y)


def test_layers_that_cannot_be_are_refused():
    with pytest.raises(ValueError, match="way is 'fast'"):
        ExpertLayer(16, 16, 2, "fast")
    with pytest.raises(ValueError, match=r"width=63 of torch.bfloat16: a row must be a multiple of 16 bytes"):
        ExpertLayer(63, 16, 2)
    with pytest.raises(ValueError, match="no mode is called 'jit'"):
        layer_runs(modes=("jit",))


@pytest.mark.slow
def test_generated_code_calls_the_fallback_in_python_in_cpp_and_in_a_package():
    compiled, wrapper, package = layer_runs(
        tokens=32, experts=2, width=32, hidden=32, ways=("grouped",), modes=("compiled", "C++ wrapper", "AOTInductor")
    )
    assert compiled.calls == ("extern_kernels._grouped_mm",)
    assert wrapper.calls == package.calls == ("aoti_torch_cpu__grouped_mm",) and package.through_proxy == 0
    assert all(run.error < 0.01 and not run.stopped for run in (compiled, wrapper, package))
    assert "aoti_torch_cpu__grouped_mm" in str(runs_table([package]))


def test_a_line_for_each_way_against_tokens():
    rows = [LayerCost(way, 8, n, n * k, n * k, n * k, 1.0, 0.003) for way, k in (("a", 1), ("b", 2)) for n in (1, 2)]
    assert "a 1 to 2; b 2 to 4" in by_tokens(rows, 8, HERE).alt
    with pytest.raises(ValueError, match=r"nothing was measured with 9 experts; there is \[8\]"):
        by_tokens(rows, 9, HERE)
    assert recorded(Recording("grouped", HERE, {"rows": [vars(row) for row in rows]})) == rows
