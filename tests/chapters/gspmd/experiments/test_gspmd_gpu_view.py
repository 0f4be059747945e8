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


def test_bfloat16_is_summed_as_float32_on_cpus_alone():
    recorded = load("gspmd_gpu")
    assert view.payload_nbytes(recorded, "CPU", "bfloat16") == view.payload_nbytes(recorded, "GPU", "float32") == 32_768
    assert view.payload_nbytes(recorded, "GPU", "bfloat16") == 16_384


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda of: view.sent(of, "12 wide"), "'64 wide', '768 wide'"),
        (lambda of: view.payload_nbytes(of, "TPU", "float32"), "CPU float32"),
    ],
)
def test_what_was_not_recorded_is_refused_with_what_there_is(call, word):
    with pytest.raises(ValueError, match=word):
        call(load("gspmd_gpu"))
