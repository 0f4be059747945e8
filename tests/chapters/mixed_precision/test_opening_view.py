"""Two floors and the casts between them: each operation stands where it computes."""

import re

import pytest
import torch

from chapters.mixed_precision.opening_view import floors
from compile_lab.page.figures import PALETTE
from compile_lab.precision import casts
from mini_model.model import GPTConfig, MiniGPT


def traced(enabled):
    model = MiniGPT(GPTConfig(60, context=8, dim=16, layers=2, heads=2))
    tokens = torch.zeros(2, 8, dtype=torch.int64)
    run = torch.autocast("cpu", torch.bfloat16, enabled=enabled)(model.forward)
    return casts.dtypes(run, tokens, tokens, model=model)


def test_products_stand_below_and_norms_above():
    drawing = floors(traced(True), "A block.")
    assert [row[2].split(",")[0] for row in drawing.table.rows] == [
        "fp32",
        *["bf16"] * 3,
        "fp32",
        "fp32",
        *["bf16"] * 3,
        "fp32",
    ]
    assert sum(row[5] for row in drawing.table.rows) == 8 and sum(row[4] for row in drawing.table.rows) == 2
    boxes = re.findall(r"<rect [^>]*height='58'[^>]*fill='(#\w+)'", drawing.svg)
    assert boxes.count(PALETTE["orange"]) == 6 and boxes.count(PALETTE["blue"]) == 4
    assert "2 casts of an activation and 8 of a parameter" in drawing.alt


def test_without_autocast_nothing_is_cast_and_all_stand_above():
    drawing = floors(traced(False))
    assert {row[2] for row in drawing.table.rows} == {"fp32"} and "0 casts of an activation" in drawing.alt


def test_a_trace_without_a_block_is_refused():
    with pytest.raises(ValueError, match="0 layer norms"):
        floors(casts.dtypes(lambda x: x.exp(), torch.ones(3, requires_grad=True)))
