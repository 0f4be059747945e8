"""A pass as layers of calls: what is drawn is what was counted, each call above those that it led to."""

import re

import pytest
import torch
import torch.nn.functional as F

from chapters.eager_baseline import layers_view
from chapters.eager_baseline import view as dispatch_view
from chapters.shared.subjects import minigpt, tokens
from compile_lab.eager.dispatch import DispatchLog, log


def test_each_layer_has_a_box_for_each_call_and_its_count():
    found = log(F.linear, torch.rand(8, 64), torch.rand(192, 64), torch.rand(192))
    drawing = layers_view.layers(found, "a line")
    blue, grey, sky, red = (
        drawing.svg.count(f"fill='{code}'") for code in ("#0072B2", "#7A7A7A", "#56B4E9", "#D55E00")
    )
    assert (blue, sky, red) == (1, found.below_autograd, 1)
    assert grey == len(found.calls) + 1  # and the strip of the model's parts
    assert [row[1] for row in drawing.table.rows] == [1, len(found.calls), found.below_autograd, 1]
    assert "1 calls of torch by Python lead to" in drawing.alt


def test_a_call_spans_those_that_its_kernels_made():
    found = log(F.linear, torch.rand(8, 64), torch.rand(192, 64), torch.rand(192))
    ends = layers_view._ends(found.calls)
    for at, call in enumerate(found.calls):
        assert all(other.depth > call.depth for other in found.calls[at + 1 : ends[at]])
        assert ends[at] == len(found.calls) or found.calls[ends[at]].depth <= call.depth
    assert list(layers_view._python_spans(found.calls, ends)) == [(0, len(found.calls))]


def test_a_models_layers_are_named_in_their_order():
    model = minigpt()
    drawing = layers_view.layers_of("a forward", model, *tokens(model, 2)[:1])
    named = re.findall(r">(block \d)</text>", drawing.svg)
    assert named == [f"block {index}" for index in range(len(model.blocks))]


def test_an_empty_log_is_refused():
    with pytest.raises(ValueError, match="nothing was called"):
        layers_view.layers(DispatchLog((), None), "nothing")


def test_counts_as_bars_are_the_logs_counts():
    logs = {"a line": log(F.linear, torch.rand(8, 64), torch.rand(192, 64)), "a sum": log(torch.add, *torch.rand(2, 3))}
    figure = dispatch_view.counted(logs)
    assert [row[0] for row in figure.table.rows] == list(dispatch_view.MEANINGS.values())
    assert [row[1] for row in figure.table.rows] == list(logs["a line"].counts().values())
    assert "a sum: 1 calls of torch by Python, 1 calls of the dispatcher" in figure.alt


def test_costs_stand_in_groups_by_mode_and_name_the_ends():
    def row(op, mode, us):
        return {"op": op, "mode": mode, "median_us": us, "low_us": us, "high_us": us}

    figure = dispatch_view.costs(
        [row("x + y", "grad", 7.3), row("x + y", "no_grad", 6.1), row("view", "no_grad", 0.97)]
    )
    assert figure.table.rows[1][1] is None and "view" in figure.table.rows[1][0]
    assert "from 0.97 µs for view in no_grad to 7.3 µs for x + y in grad" in figure.alt


def test_a_batchs_time_stands_beside_the_longer_of_its_two_parts():
    spread = {"median_us": 10.0, "low_us": 9.0, "high_us": 11.0}
    rows = [
        {"pass": "forward", "batch": batch, "wall": spread, "issue": spread, "kernels": 3, "kernels_us": us}
        for batch, us in ((1, 4.0), (2, 12.0))
    ]
    table = dispatch_view.batches(rows).table
    assert table.columns[-1].startswith("model: the longer of these two")
    assert "ms" in table.columns[-1] and [row[-1] for row in table.rows] == [0.01, 0.012]
