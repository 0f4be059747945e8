"""check says what is wrong with an answer of chapter 05; its right answers are the notebook's own, checked by nbval."""

import pytest

from chapters.exercises import check

pytestmark = pytest.mark.processes

triton = pytest.importorskip("triton", reason="no triton for this platform")
tl = triton.language


@triton.jit
def by_block(out, x, columns, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    row = tl.load(x + tl.program_id(0) * columns + at, at < columns, 0.0)
    mean = tl.sum(row * row, 0) / BLOCK
    tl.store(out + tl.program_id(0) * columns + at, row / tl.sqrt(mean + 1e-6), at < columns)


@triton.jit
def by_columns(out, x, columns, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    row = tl.load(x + tl.program_id(0) * columns + at, at < columns, 0.0)
    mean = tl.sum(row * row, 0) / columns
    tl.store(out + tl.program_id(0) * columns + at, row / tl.sqrt(mean + 1e-6), at < columns)


@triton.jit
def first_row_only(out, x, columns, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, at < columns, 0.0), at < columns)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "answer", "wrong"),
    [
        ("05.1", ..., "no answer yet"),
        ("05.1", "24", "whole number"),
        ("05.1", 28, "no whole number of blocks"),
        ("05.1", 16, "room for more"),
        ("05.1", 32, "not registers"),
        ("05.2", by_block, "with rows of 64 and BLOCK=128 the largest error is"),
        ("05.2", first_row_only, "some elements are not written"),
        ("05.2", print, "raised TypeError"),
        ("05.3", 3, "asks for text"),
        ("05.3", "mul.f32", "must compute a power"),
        ("05.3", "ex2.approx.f32", "two operations, not 1"),
        ("05.3", "add.f32 ex2.approx.f32", "add.f32 does not"),
    ],
)
def test_a_wrong_answer_is_told_what_is_wrong_with_it(name, answer, wrong):
    outcome = check(name, answer)
    assert not outcome.passed and wrong in outcome.wrong


@pytest.mark.parametrize(("name", "answer"), [("05.1", 24), ("05.2", by_columns), ("05.3", "mul.f32 ex2.approx.f32")])
def test_a_right_answer_passes(name, answer):
    assert check(name, answer).passed
