"""What the page says of XLA's pipelines is what the recording holds."""

import pytest

from chapters.gspmd.experiments import gspmd_gpu_view as view
from compile_lab.recordings import load


@pytest.mark.parametrize("size", ["64 wide", "768 wide"])
def test_the_gpus_pipeline_joins_the_sums_and_without_its_pass_does_not(size):
    found = view.sent(load("gspmd_gpu"), size)
    by_hand = found["GPU", "by hand"]
    assert found["GPU", "q, k, v apart"] == found["GPU", "q, k, v in one matmul"] == by_hand
    off = found["GPU, sums not joined", "q, k, v apart"]
    assert off.nbytes > by_hand.nbytes and found["GPU, sums not joined", "by hand"] == by_hand


def test_the_table_has_each_program_beside_the_one_by_hand_and_says_where():
    shown = view.table(load("gspmd_gpu"), "768 wide")
    assert [row[-1] for row in shown.rows if row[1] == "by hand"] == ["1.0×", "1.0×"] and "H100" in shown.caption
    assert ("GPU, sums not joined", "q, k, v apart", 6, "226 MB", "1.5×") in [tuple(row) for row in shown.rows]


def test_another_size_is_refused_with_those_there_are():
    with pytest.raises(ValueError, match="'64 wide', '768 wide'"):
        view.sent(load("gspmd_gpu"), "12 wide")
