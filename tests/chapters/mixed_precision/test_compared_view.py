"""Pictures that compare precisions: what is drawn is what the rows say, and one scale serves all panels."""

import re
from types import SimpleNamespace

import pytest
import torch

from chapters.mixed_precision import view as precision_view
from chapters.mixed_precision.compared_view import apart, bits, computed_in, roundings, step_times
from chapters.mixed_precision.training import Training
from compile_lab import recordings
from compile_lab.precision import FORMATS

RUN = recordings.load("precision")


def test_bits_are_drawn_to_scale():
    drawing = bits()
    wide = [float(w) for w in re.findall(r"<rect [^>]*width='([\d.]+)'", drawing.svg)]
    each = [(1, one.exponent_bits, one.mantissa_bits) for one in FORMATS.values()]
    assert [round((w + 2) / 17) for w in wide] == [count for one in each for count in one]
    assert "bf16 8 and 7" in drawing.alt


def test_a_call_stands_in_the_precision_that_it_reads():
    drawing = computed_in({"H200": RUN.result["probes"]})
    cells = re.findall(r"<title>(fp32|bf16|bf16, then fp32)</title>", drawing.svg)
    assert len(cells) == len(drawing.table.rows) and drawing.alt.startswith(
        "What calls compute in, given bf16. H200: in bf16 linear"
    )
    exp = [row["call"] for row in RUN.result["probes"] if row["given"] == "bf16"].index("exp")
    assert cells[exp] == "fp32"


def test_runs_are_apart_on_one_scale():
    exact = Training((2.0, 1.0, 0.5), 0.0)
    near, far = Training((2.0, 1.0002, 0.5002), 0.0), Training((2.2, 1.2, 0.7), 0.0)
    drawing = apart({"fp64": exact, "near": near, "far": far}, "fp64")
    lines = re.findall(r"<path d='M([^']*)' fill='none' stroke='#0072B2'", drawing.svg)
    heights = [float(re.findall(r" (\d+)", path)[-1]) for path in lines]
    assert len(lines) == 2 and heights[0] - heights[1] == pytest.approx(104 * 3 / 4, abs=3), "three of four decades"
    assert drawing.alt.endswith("near 2e-04, far 2e-01.")
    with pytest.raises(ValueError, match="one of the runs"):
        apart({"fp64": exact}, "fp64")


def test_errors_are_counted_in_roundings():
    figure = roundings(RUN.result["ops"], RUN.provenance)
    worst = max(
        (row for row in RUN.result["ops"] if row["precision"] == "bf16"), key=lambda r: r["error"] / r["rounding"]
    )
    traces = {trace["name"]: trace for trace in figure.to_json()["data"]}
    at = traces["bf16"]["y"].index(worst["op"])
    assert traces["bf16"]["x"][at] == pytest.approx(worst["error"] / worst["rounding"], rel=1e-4)
    assert step_times(RUN.result["steps"]).to_json()["data"][0]["x"][0] == pytest.approx(159.698, rel=1e-4)


def test_kernels_that_only_cast_are_counted_by_direction():
    cast, other = SimpleNamespace(op="aten._to_copy"), SimpleNamespace(op="aten.gelu")
    made = [("forward", [cast]), ("forward", [cast]), ("backward", [cast]), ("forward", [cast, other])]
    kernels = [SimpleNamespace(direction=d, computed=ops, language="triton", nbytes=8) for d, ops in made]
    graph = SimpleNamespace(kernels=kernels, nodes=[cast] * 4 + [other])
    code = SimpleNamespace(graphs=[graph], kernels=kernels, chip="H200", provenance=RUN.provenance)
    table = precision_view.kernels({"autocast": code})
    assert table.rows == [("autocast", 4, 4, 4, 1, 3, "2 + 1", 24)] and len(table.columns) == len(table.align)
    assert table.folded == "Kernels that only cast: autocast: 3 of 4"


def test_recipes_are_told_from_what_they_are():
    rows = {row[0]: row[1:] for row in precision_view.recipes().rows}
    assert rows["fp16 autocast, scaled"] == ("fp32", "fp16, the loss times a scale", "fp32")
    assert rows["bf16, fp32 masters"] == ("bf16, and a copy in fp32", "bf16", "fp32, in the copy")
    assert rows["bf16, stochastic rounding"] == ("bf16", "bf16", "fp32, rounded at random")


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


def test_a_cast_to_8_bits_is_told_with_and_without_a_scale():
    table = precision_view.quantisations({("weight", "e4m3"): ("lost", "kept")}, "here")
    assert table.rows == [("weight", "e4m3", "lost", "kept")] and table.folded and table.caption == "here"
