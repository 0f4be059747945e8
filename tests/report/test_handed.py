"""A model is told as it was handed over: its parts compiled one by one are not the whole compiled as one."""

import pytest
import torch
from torch import nn

from compile_lab.report.captured import ReportOptions, captured
from compile_lab.report.given import given
from compile_lab.report.handed import handed_over
from compile_lab.report.model import card
from compile_lab.report.questions import QUESTIONS

COUNT = 10


class Part(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.linear, self.factor = nn.Linear(4, 4), factor

    def forward(self, x):
        return x + self.factor * self.linear(x).tanh()


class Row(nn.Module):
    def __init__(self, factors):
        super().__init__()
        self.parts = nn.ModuleList(map(Part, factors))

    def forward(self, x):
        for part in self.parts:
            x = part(x)
        return x.square().mean()


def of(model, only=("trace", "handed")):
    return captured(given(model, torch.randn(2, 4)), ReportOptions(limit_s=600), only)


def in_place(factors, backend=lambda: "eager"):
    model = Row(factors)
    for part in model.parts:
        part.compile(backend=backend())
    return model


def fresh():
    return lambda module, inputs: module.forward


@pytest.mark.parametrize("model", [in_place(range(COUNT)), in_place([1] * COUNT, fresh)], ids=["numbers", "backends"])
def test_parts_that_differ_reach_torchs_limit_and_the_report_says_so(model):
    found = of(model)
    (part,) = found.handed.parts
    assert (part.function, part.compilations, part.limit) == ("forward", 8, "recompile_limit")
    assert part.place.startswith("test_handed.py, line ") and "id=0x" not in " ".join(part.failed)
    assert found.handed.entered == 8 < COUNT == len(found.handed.marked)
    told = card("handed", found)
    assert (
        told.severity == "bad" and "8 compiled graphs" in told.verdict and "10 modules from `parts.0`" in told.verdict
    )
    assert "backend object" in QUESTIONS["parts_at_their_limit"](found).cure


def test_the_whole_graph_is_not_told_as_the_readers_program():
    found = of(in_place([1] * 3))
    assert found.handed.entered == 3 and found.handed.at_limit == ()
    assert card("handed", found).severity == "look" and QUESTIONS["parts_at_their_limit"](found) is None
    whole = card("breaks", found)
    assert whole.severity == "look" and whole.verdict.endswith("That is of the model compiled as one.")


@pytest.mark.skipif(torch.__version__ >= "2.14", reason="it compiles them")
def test_parts_of_torchs_own_classes_stay_eager_in_their_place_and_the_report_says_how_to_compile_them():
    model = Row([1, 1])
    model.parts = nn.ModuleList([nn.Linear(4, 4), Part(1), nn.Sequential(nn.Linear(4, 4), nn.ReLU())])
    for part in model.parts:
        part.compile(backend="eager")
    found = of(model)
    assert found.handed.left_eager == ("parts.0", "parts.2") and found.handed.entered == 1
    finding = QUESTIONS["parts_left_eager"](found)
    assert "Linear, Sequential" in finding.told and "torch.compile(parts.0)" in finding.cure
    model.parts = nn.ModuleList([torch.compile(nn.Linear(4, 4), backend="eager")])
    assert QUESTIONS["parts_left_eager"](of(model)) is None


def test_wrapped_parts_are_found_by_their_paths_and_a_compiled_function_by_its_call():
    model = Row([1, 1])
    model.parts = nn.ModuleList(torch.compile(part, backend="eager") for part in model.parts)
    assert handed_over(given(model, torch.randn(2, 4))).marked == ("parts.0", "parts.1")

    @torch.compile(backend="eager")
    def doubled(x):
        return 2 * x

    class Calls(Part):
        def forward(self, x):
            return doubled(super().forward(x)).mean()

    found = handed_over(given(Calls(1), torch.randn(2, 4)))
    assert found.marked == () and [each.function for each in found.parts] == ["doubled"] and found.entered == 1


def test_what_is_kept_is_what_the_readers_checkpoint_keeps():
    class Checkpointed(Row):
        def forward(self, x):
            for part in self.parts:
                x = torch.utils.checkpoint.checkpoint(part, x, use_reentrant=False)
            return x.square().mean()

    kept = {}
    for kind in (Row, Checkpointed):
        model = kind([1] * 4)
        for part in model.parts:
            part.compile(backend="aot_eager")
        kept[kind] = handed_over(given(model, torch.randn(2, 4))).kept_nbytes
    assert kept[Checkpointed] == 4 * 2 * 4 * 4 < kept[Row], "a checkpoint keeps each part's input, or result, alone"


def test_a_part_that_raises_once_it_is_compiled_is_told_and_not_left_out():
    def broken():
        def backend(module, inputs):
            raise RuntimeError("this backend compiles nothing")

        return backend

    told = card("handed", of(in_place([1], broken)))
    assert told.severity == "failed" and "this backend compiles nothing" in told.verdict
