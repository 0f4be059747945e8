"""What a reader sees of the patterns: the picture of the shards, tables, panels."""

from dataclasses import replace

from compile_lab.simulator import patterns_view
from compile_lab.simulator.collectives import Collective
from compile_lab.simulator.recommendation import recommend
from mini_model.model import GPT2_124M

SEVENTY_B = replace(GPT2_124M, dim=8192, layers=80, heads=64, context=2048, tied_head=False)


def test_the_ranking_gives_its_best_and_says_where_nothing_fits():
    best, table, out = patterns_view.ranking(recommend(GPT2_124M, 8, 80e9))
    assert best.startswith("**ddp: holds") and table.rows[0][0] == "ddp" and out.endswith("for tp, tp+sp, pp.")
    (nothing,) = patterns_view.ranking(recommend(SEVENTY_B, 8, 80e9))
    assert nothing.startswith("**Nothing fits.** Too large: ddp (1,")


def test_formula_and_count_are_set_side_by_side_and_a_difference_shows():
    planned = (Collective("all_reduce", "replicate", 2, 1, 100),)
    table = patterns_view.matched([("ddp", 2, planned, planned), ("ddp", 2, planned, ())])
    assert [row[-1] for row in table.rows] == [True, False] and "1 equal" in table.folded
