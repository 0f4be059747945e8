"""The card that judges: right, wrong, refused, raised, not judged; and what nothing writes in the code for a chip."""

import dataclasses
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from modulated import Denoiser
from spoilt import negated
from torch import nn

from compile_lab._torch.inductor import inductor_config
from compile_lab.inductor.generated import generated_code
from compile_lab.known_faults import KNOWN_FAULTS
from compile_lab.report import judged
from compile_lab.report.captured import ReportOptions, captured
from compile_lab.report.given import given
from compile_lab.report.model import card
from compile_lab.virtual_gpu.errors import VirtualGPUError

pytestmark = pytest.mark.processes

WHATEVER_IT_TAKES = ReportOptions(limit_s=600, judge=True)


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 4)

    def forward(self, x):
        return self.second(torch.tanh(self.first(x)))


def drawn(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


def judged_of(model, batch, options=WHATEVER_IT_TAKES):
    return captured(given(model, batch), options, only=("judged",))


def with_code(found, code):
    return dataclasses.replace(found, parts={**found.parts, "code": code})


def refuses(graph):
    raise ValueError("this pass takes no graph")


def test_a_right_step_is_fine_only_where_the_code_for_the_chip_was_read_too():
    model, batch = Small(), drawn(3, 8)
    found = judged_of(model, batch)
    alone = card("judged", found)
    assert alone.severity == "look" and alone.verdict.startswith("Right: ") and "not all is there" in alone.verdict
    without = card("judged", with_code(found, VirtualGPUError("no C++ compiler was found: install g++")))
    assert without.severity == "look" and "Right: " in without.verdict
    whole = card("judged", with_code(found, generated_code(model, batch)))
    assert whole.severity == "good" and "writes all that it returns" in whole.verdict
    results = {name for name, _ in whole.parts[0].rows}
    assert {"output", "gradient of first.weight", "gradient of second.bias (second call)"} <= results
    assert [(each.name, each.value) for each in whole.figures] == [("results that are wrong", 0)]


def test_a_wrong_pass_is_told_by_the_names_of_what_it_spoils():
    with inductor_config.patch(post_grad_custom_pre_pass=negated):
        found = judged_of(Small(), drawn(3, 8))
    made = card("judged", found)
    assert made.severity == "bad" and made.verdict.startswith("WRONG in gradient of first.weight, ")
    assert "stage_at_fault" in made.parts[0].text and made.figures[0].value == 8  # four gradients, twice


def test_a_pass_that_raises_is_the_steps_error_unless_the_step_runs_without_the_judge(monkeypatch):
    with inductor_config.patch(post_grad_custom_pre_pass=refuses):
        made = card("judged", judged_of(Small(), drawn(3, 8)))
    assert made.severity == "bad" and "your step raises" in made.verdict and "this pass takes no graph" in made.verdict
    monkeypatch.setattr(judged, "compiled_step", lambda given: SimpleNamespace(ran=True))
    with inductor_config.patch(post_grad_custom_pre_pass=refuses):
        made = card("judged", judged_of(Small(), drawn(3, 8)))
    assert made.severity == "failed" and "compiled without it the step runs" in made.verdict


def test_what_the_reader_compiles_is_no_measure_of_itself():
    model = Small()
    model.second = torch.compile(model.second)
    with inductor_config.patch(post_grad_custom_pre_pass=negated):
        made = card("judged", judged_of(model, drawn(3, 8)))
    assert made.severity == "bad" and "gradient of second" in f"{made.parts[1].rows}"


class Buckets(nn.Module):
    """Rows of a table that are chosen by the last bit of a number."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(5, 4)

    def forward(self, x):
        return self.table(torch.bucketize((x * 3) / 3, torch.tensor([0.0, 0.1, 0.2, 0.3])))


def test_what_hangs_on_a_last_bit_is_refused_and_nothing_is_fine():
    model, batch = Buckets(), torch.tensor([0.1, 0.2, 0.3] * 50)
    made = card("judged", with_code(judged_of(model, batch), generated_code(model, batch)))
    assert made.severity == "look" and made.verdict.startswith("Not compared: output, ")


# ---- what is not judged, and why


def not_judged(model, batch, options=WHATEVER_IT_TAKES, costly=False):
    made = card("judged", judged_of(model, batch, options))
    assert made.severity == "look" and made.figures == ()
    assert any("compile-lab judge" in each.text for each in made.parts) is costly
    return made.verdict


def test_what_would_take_long_is_not_begun(monkeypatch):
    monkeypatch.setattr("compile_lab.report.captured.expected_seconds", lambda *_: 47.0)
    monkeypatch.setattr(judged, "units_of", None)
    said = not_judged(Small(), drawn(3, 8), ReportOptions(limit_s=600), costly=True)
    assert said.startswith(
        "Not checked: running it often, and building its kernels for this machine, would take about 47 s. "
    )


def test_a_large_model_and_sparse_gradients_are_not_judged(monkeypatch):
    assert "is sparse" in not_judged(
        nn.Sequential(nn.Embedding(5, 4, sparse=True), nn.Linear(4, 1)), torch.tensor([1, 2])
    )
    monkeypatch.setattr(judged, "MOST_ELEMENTS", 100)
    assert "of 108 parameters a dozen copies" in not_judged(Small(), drawn(3, 8), costly=True)


# ---- what nothing writes


def test_what_nothing_writes_is_bad_also_where_nothing_else_could_be_judged(monkeypatch):
    model, batch = Small(), drawn(3, 8)
    lost = ("gradient of first.weight, [8, 8]",)
    monkeypatch.setattr("compile_lab.report.judged_card.unwritten", lambda *_: lost)
    late = RuntimeError("no judge today")
    found = with_code(judged_of(model, batch), generated_code(model, batch))
    for parts, said in (
        ({"judged": late, "cured": late}, "there was no time to try it here"),
        ({"judged": late, "cured": ""}, "no switch that was tried fixes it"),
        ({"cured": KNOWN_FAULTS[0].option}, "tried, the code writes all of its results then"),
    ):
        made = card("judged", dataclasses.replace(found, parts={**found.parts, **parts}))
        assert made.severity == "bad" and lost[0] in made.verdict and said in made.parts[0].text
    assert "pytorch#193061" in made.verdict and "Right: " in made.verdict, "on this machine it is"


@pytest.mark.slow
@pytest.mark.skipif(not KNOWN_FAULTS[0].of(torch.__version__), reason="the fault is of 2.10 to 2.14")
def test_the_gradient_that_nothing_writes_is_named_with_the_switch_that_was_tried():  # pytorch#193061
    subject = given(Denoiser(768), (drawn(1, 8192, 768), drawn(1, 8192, 768)))
    found = captured(subject, ReportOptions(limit_s=600), only=("code", "cured"))
    made = card("judged", dataclasses.replace(found, parts={**found.parts, "judged": RuntimeError("not today")}))
    assert made.severity == "bad" and "gradient of block.table, [1, 4, 768] (pytorch#193061)" in made.verdict
    assert "triton.mix_order_reduction = False`, or `TORCHINDUCTOR_MIX_ORDER_REDUCTION=0`" in made.parts[0].text
    assert "tried, the code writes all" in made.parts[0].text
    layer_norm = captured(given(Normed(), drawn(1, 64, 768)), ReportOptions(limit_s=600), only=("code", "cured"))
    assert layer_norm.parts["cured"] == "" and judged.unwritten(layer_norm.given, layer_norm.code) == ()


class Normed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(768))

    def forward(self, x):
        return F.layer_norm(x, (768,)) * self.scale
