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
    assert [row[-1] for row in shown.rows if row[1] == "by hand"] == ["1.0×", "1.0×"] and "H200" in shown.caption
    assert ("GPU, sums not joined", "q, k, v apart", 6, "151 MB", "1.5×") in [tuple(row) for row in shown.rows]


def test_another_size_is_refused_with_those_there_are():
    with pytest.raises(ValueError, match="'64 wide', '768 wide'"):
        view.sent(load("gspmd_gpu"), "12 wide")


def test_without_pcast_the_plan_by_hand_sums_apart_where_no_pass_joins_its_sums():
    found = view.sent(load("gspmd_gpu"), "768 wide")
    assert found["GPU", "by hand, without pcast"] == found["GPU", "by hand"]
    off = "GPU, sums not joined"
    assert found[off, "by hand, without pcast"] == found[off, "q, k, v apart"] != found[off, "by hand"]


def test_on_gpus_sequence_parallel_is_the_formulas_and_on_cpus_it_has_whole_sums():
    rows = {row[0]: row[1:] for row in view.layouts_table(load("gspmd_gpu")).rows}
    kinds = [told.partition(";")[0].split(", ") for told in rows["tp+sp"]]
    assert kinds[0] == ["4 all-gather", "5 all-reduce"]
    assert {"4 all-gather", "4 reduce-scatter"} < set(kinds[1]) and {"4 all-gather", "4 reduce-scatter"} < set(kinds[2])
    assert rows["fsdp"][1] == "1 all-gather, 1 reduce-scatter; 199,936 B"
    assert rows["tp+sp, the stream alone"][2] == "", "there is no formula for weights that travel"


def test_operations_that_both_pipelines_send_alike_are_left_out():
    shown = view.operations_that_differ(load("gspmd_gpu"))
    assert [row[0] for row in shown.rows] == ["cumsum", "top 2", "argmax", "x[:, 1] = 0, S(1)"]
    assert shown.caption.startswith("4 of 24")


def test_bfloat16_is_summed_as_float32_on_cpus_alone():
    recorded = load("gspmd_gpu")
    assert view.payload_nbytes(recorded, "CPU", "bfloat16") == view.payload_nbytes(recorded, "GPU", "float32") == 32_768
    assert view.payload_nbytes(recorded, "GPU", "bfloat16") == 16_384
    with pytest.raises(ValueError, match="has CPU float32, CPU bfloat16"):
        view.payload_nbytes(recorded, "TPU", "float32")


def test_memory_of_another_program_is_refused_with_those_there_are():
    with pytest.raises(ValueError, match="forward, joint, backward"):
        view.planned_nbytes(load("gspmd_gpu"), "sideways")
