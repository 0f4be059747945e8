"""check says what is wrong with an answer of chapter 05; its right answers are the notebook's own, checked by nbval."""

import pytest
from answers import judged_as

pytestmark = pytest.mark.processes

triton = pytest.importorskip("triton", reason="no triton for this platform")
tl = triton.language


@triton.jit
def first_row_only(out, x, columns, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, at < columns, 0.0), at < columns)


test_a_wrong_answer_is_told_what_is_wrong_with_it = pytest.mark.slow(
    judged_as(
        ("05.1", 28, "no whole number of blocks"),
        ("05.1", 16, "room for more"),
        ("05.1", 32, "not registers"),
        ("05.2", first_row_only, "some elements are not written"),
        ("05.3", "mul.f32", "must compute a power"),
        ("05.3", "ex2.approx.f32", "two operations, not 1"),
        ("05.3", "add.f32 ex2.approx.f32", "add.f32 does not"),
    )
)
