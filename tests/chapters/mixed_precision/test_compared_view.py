"""Pictures and tables that compare precisions: what no page shows from stored numbers."""

import pytest
import torch

from chapters.mixed_precision import view as precision_view
from chapters.mixed_precision.compared_view import apart, floors
from chapters.mixed_precision.training import Training
from compile_lab import recordings
from compile_lab.precision import casts

RUN = recordings.load("precision")


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda: apart({"fp64": Training((2.0, 1.0), 0.0)}, "fp64"), "one of the runs"),
        (lambda: floors(casts.dtypes(lambda x: x.exp(), torch.ones(3, requires_grad=True))), "0 layer norms"),
    ],
)
def test_nothing_to_compare_and_no_block_are_refused(call, word):
    with pytest.raises(ValueError, match=word):
        call()


def test_endings_measure_the_way_from_the_start():
    class Line(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = torch.nn.Parameter(torch.zeros(2))

        def forward(self, x):
            return (self.w * x).sum()

    runs = {
        name: Training((1.0,), stuck, parameters={"w": torch.tensor(end, dtype=torch.float64)})
        for name, stuck, end in (("fp64", 0.0, [3.0, 4.0]), ("bf16", 0.25, [3.0, 3.0]))
    }
    table = precision_view.endings(runs, "fp64", Line(), [(torch.ones(2, dtype=torch.float64),)], "here")
    assert table.rows == [("fp64", "7.0000", "0 %", "0.0 %"), ("bf16", "6.0000", "20 %", "25.0 %")]
    assert "of the fp64 run" in table.caption and table.folded


def test_a_recording_gives_its_trainings_back():
    found = precision_view.trainings(RUN.result["training"])
    assert [len(run.losses) for run in found.values()] == [40] * len(RUN.result["training"])
    last = RUN.result["training"][-1]
    assert found[last["precision"]].losses == tuple(last["losses"]) and found[last["precision"]].stuck == last["stuck"]
