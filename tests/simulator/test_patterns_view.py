"""What a reader sees of the patterns: the picture of the shards, tables, panels."""

from compile_lab.simulator import patterns_view
from compile_lab.simulator.collectives import Collective


def test_formula_and_count_are_set_side_by_side_and_a_difference_shows():
    planned = (Collective("all_reduce", "replicate", 2, 1, 100),)
    table = patterns_view.matched([("ddp", 2, planned, planned), ("ddp", 2, planned, ())])
    assert [row[-1] for row in table.rows] == [True, False] and "1 equal" in table.folded
