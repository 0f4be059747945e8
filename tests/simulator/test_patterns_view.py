"""What a reader sees of the patterns: the picture of the shards, tables, panels."""

import itertools
import re
from dataclasses import replace

import pytest

from compile_lab.page.units import with_unit
from compile_lab.simulator import patterns_view
from compile_lab.simulator.collectives import Collective
from compile_lab.simulator.patterns import plan
from compile_lab.simulator.recommendation import Network, compute_s, recommend, traffic_s
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


def test_the_ranking_gives_its_best_and_says_where_nothing_fits():
    best, table, out = patterns_view.ranking(recommend(GPT2_124M, 8, 80e9))
    assert best.startswith("**ddp: holds") and table.rows[0][0] == "ddp" and "which Python takes" in best
    assert out == "The devices do not divide the model, or make no mesh, for tp, tp+sp, pp."
    (nothing,) = patterns_view.ranking(recommend(SEVENTY_B, 8, 80e9))
    assert nothing.startswith("**Nothing fits.** Too large: ddp (1,") and "GB a device), fsdp (" in nothing
    _, table, out = patterns_view.ranking(recommend(SEVENTY_B, 11, 192e9))
    assert table.folded == "1 pattern fits" and "for hsdp, tp" in out


def test_formula_and_count_are_set_side_by_side_and_a_difference_shows():
    planned = (Collective("all_reduce", "replicate", 2, 1, 100),)
    table = patterns_view.matched([("ddp", 2, planned, planned), ("ddp", 2, planned, ())])
    assert [row[-1] for row in table.rows] == [True, False] and table.rows[0][3:5] == [100, 100]
    assert table.folded == "Formula and count, 2 programs: 1 equal to the byte"


def test_what_is_held_and_sent_is_stacked_on_one_scale():
    plans = {name: plan(GPT2_124M, name, 4) for name in ("ddp", "fsdp", "tp")}
    drawn = patterns_view.by_kind(plans)
    boxes = re.findall(r"<rect x='([\d.]+)' y='(\d+)' width='([\d.]+)' height='(\d+)'", drawn.svg)
    scale = (1000 - 130 - 12) / 4e9
    for row, found in enumerate(plans.values()):
        held = [(float(x), float(wide)) for x, y, wide, high in boxes if (int(y), high) == (62 * row, "28")]
        assert sum(wide for _, wide in held) == pytest.approx(found.total_nbytes * scale, rel=0.01)
        assert all(a[0] + a[1] == pytest.approx(b[0], abs=0.6) for a, b in itertools.pairwise(held))
        (sent,) = [float(wide) for _, y, wide, high in boxes if (int(y), high) == (62 * row + 32, "14")]
        assert sent == pytest.approx(found.sent_nbytes * scale, rel=0.01)
        assert drawn.table.rows[row][-2:] == [with_unit(found.total_nbytes), with_unit(found.sent_nbytes)]


def test_the_times_of_sending_are_bytes_over_rates_and_computing_is_marked():
    network = Network()
    plans = {name: plan(SEVENTY_B, name, 16, precision="bf16") for name in ("ddp", "pp")}
    drawn = patterns_view.rates_that_it_takes(plans, network)
    for name, _, inside, whole, one in drawn.table.rows:
        (axis,) = plans[name].mesh
        assert whole == round(1e3 * traffic_s(plans[name], network)[axis]), "as it is charged"
        assert inside < whole < one if name == "ddp" else inside < whole == one, "a neighbour is reached by one card"
    assert f"computes for {1e3 * compute_s(plans['pp'], network):,.0f} ms" in drawn.caption
