"""What else the compiler offers: each way has the gradients of the rung it starts from, and is told if it fails."""

import math

import pytest
import torch

from chapters.capstone import forms
from chapters.capstone.experiments import capstone_options
from chapters.shared import subjects


@pytest.mark.slow
def test_each_way_is_timed_and_judged_beside_the_peer(peer):
    found = capstone_options.record("cpu", peer=peer, tune_by_s=math.inf)
    rows = {row["name"]: row for row in found["rungs"]}
    assert list(rows) == ["peer, compiled", *capstone_options.WAYS]
    told = {row["name"]: row["stopped"] for row in found["stopped"]}
    assert set(told) <= {"FlexAttention"}, told  # torch trains it on a GPU alone
    measured = {name: row for name, row in rows.items() if name not in told}
    assert all(0 < row["low_ms"] <= row["median_ms"] <= row["high_ms"] for row in measured.values())
    errors = {name: row["gradient_error"] for name, row in measured.items() if name != "peer, compiled"}
    assert max(errors.values()) < 1.2 * errors["stream"] < 0.02
    assert rows["together, tuned"]["predicted_ms"] < rows["stream"]["predicted_ms"] == 0


def test_tuning_is_not_begun_when_the_time_is_over():
    study = capstone_options.OptionsStudy("cpu", 0.0, None)
    study.tune()
    assert study.attempts.stopped == [
        {"name": "together, tuned", "part": "build", "stopped": capstone_options.OUT_OF_TIME}
    ]


@pytest.mark.parametrize("form", [{}, {"gelu": forms.gelu_by_sigmoid}, {"head": forms.LeanHead}, {"joined": False}])
def test_another_form_has_the_gradients_of_the_first(form):
    study = capstone_options.OptionsStudy("cpu", 0.0, None)
    step = subjects.capstone_stream(study._model(), chunks=2, compiled=False, stream=torch.float32, **form)
    weights = dict(study._model().named_parameters())
    assert study._error(step, weights, study._exact()) < 0.01


def test_folded_weights_have_the_loss_and_the_gradients_of_the_first_whatever_was_learned():
    study = capstone_options.OptionsStudy("cpu", 0.0, None)
    model, noise = study._model(), torch.Generator().manual_seed(0)
    with torch.no_grad():
        for vector in (parameter for parameter in model.parameters() if parameter.dim() == 1):
            vector += 0.3 * torch.randn(vector.shape, generator=noise)
    weights, exact = dict(model.named_parameters()), subjects.capstone_exact(model, *study.batch)[1]
    length = study.batch[0].shape[1]
    plain, changed = (capstone_options.step_of(name, study._model(), length, "cpu") for name in ("stream", "folded"))
    plain.run, changed.run = plain.loss_of, changed.loss_of
    errors = [study._error(step, weights, exact) for step in (plain, changed)]
    assert errors[1] < 1.2 * errors[0] < 0.012


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_flexible_attention_is_causal_attention():
    q, k, v = torch.randn(3, 2, 2, 128, 16, generator=torch.Generator().manual_seed(0))
    found = forms.flexible_attention(128, "cpu")(q, k, v)
    exact = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    assert torch.allclose(found, exact, atol=1e-5)
