"""What a reader sees of the patterns: the picture of the shards, tables, panels."""

import re
from dataclasses import replace

import pytest

from compile_lab.simulator import patterns_view
from compile_lab.simulator.collectives import Collective
from compile_lab.simulator.patterns import plan
from compile_lab.simulator.recommendation import recommend
from mini_model.model import GPT2_124M, MINI

SEVENTY_B = replace(GPT2_124M, dim=8192, layers=80, heads=64, context=2048, tied_head=False)


def test_the_picture_has_a_box_for_each_slice_and_a_table_of_shapes():
    drawn = patterns_view.shards(MINI)
    boxes = re.findall(r"<rect .*?fill='(.*?)'/>", drawn.svg)
    whole = boxes.count(patterns_view.PALETTE["grey"])
    names = len(drawn.table.rows)
    assert (
        whole
        == names
        + sum("norm" in row[0] or "out.bias" in row[0] or "down.bias" in row[0] for row in drawn.table.rows)
        + 1
    )
    by_name = {row[0]: row[2:] for row in drawn.table.rows}
    assert by_name["blocks.*.attention.out.weight"] == ["64 × 64", "16 × 64", "64 × 16", "1 of 4 layers"]
    assert by_name["blocks.*.norm1.weight"][2] == "64" and by_name["head.weight"][3] is None
    assert "whole remain position_embedding.weight" in drawn.alt


def test_a_picture_of_more_than_four_devices_is_refused():
    with pytest.raises(ValueError, match="devices=8: the picture has a colour for each of 2 to 4"):
        patterns_view.shards(MINI, devices=8)


def test_a_panel_says_what_fits_and_what_crosses_the_network():
    held, _, sent = patterns_view.panel(plan(SEVENTY_B, "fsdp", 64, precision="bf16"))
    assert "80 GB: fits" in held or "80 GB: **no**" in held
    assert "all_gather along shard (network)" in sent
    assert "network" not in patterns_view.panel(plan(MINI, "fsdp", 8))[2]


def test_the_ranking_gives_its_best_and_says_where_nothing_fits():
    best, table, out = patterns_view.ranking(recommend(GPT2_124M, 8, 80e9))
    assert best.startswith("**fsdp: holds") and table.rows[0][0] == "fsdp"
    assert out.startswith("Out: ") and "tp heads=12 cannot be shared by tp=8 ranks" in out
    (nothing,) = patterns_view.ranking(recommend(SEVENTY_B, 8, 80e9))
    assert nothing.startswith("**Nothing fits.** ddp does not fit")


def test_formula_and_count_are_set_side_by_side_and_a_difference_shows():
    planned = (Collective("all_reduce", "replicate", 2, 1, 100),)
    table = patterns_view.matched([("ddp", 2, planned, planned), ("ddp", 2, planned, ())])
    assert [row[-1] for row in table.rows] == [True, False] and table.rows[0][3:5] == [100, 100]
