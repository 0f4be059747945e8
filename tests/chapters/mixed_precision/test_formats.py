"""Trainings in several precisions, how they end, and what a profiler's trace says of casts."""

import pytest
import torch
from torch import nn

from chapters.mixed_precision.compared_view import apart, floors
from chapters.mixed_precision.experiments.precision import launched_casts
from chapters.mixed_precision.training import RECIPES, Recipe, Training, distance, loss_in_float64, trained
from chapters.mixed_precision.view import endings
from compile_lab.measure.trace import read
from compile_lab.precision import casts


class Fit(nn.Module):
    """A regression whose loss is the model's result; the norm's weights begin at 1."""

    def __init__(self):
        super().__init__()
        self.up, self.norm, self.down = nn.Linear(4, 16), nn.LayerNorm(16), nn.Linear(16, 1)

    def forward(self, x, y):
        x = x.to(self.up.weight.dtype)
        return (self.down(self.norm(self.up(x))).float() - y).square().mean()


@pytest.fixture(scope="module")
def fits():
    torch.manual_seed(0)
    model = Fit()
    batches = [(x, x.sum(1, keepdim=True)) for x in torch.randn(12, 32, 4)]
    return model, batches, {name: trained(model, batches, recipe, 1e-3) for name, recipe in RECIPES.items()}


def test_a_run_in_fp32_stays_near_float64_and_the_model_is_left_alone(fits):
    model, batches, runs = fits
    again = trained(model, batches, RECIPES["fp32"], 1e-3)
    assert again == runs["fp32"] and again.finite  # seeded, and begun from the same model
    assert distance(runs["fp64"], runs["fp64"], model) == 0
    assert distance(runs["fp32"], runs["fp64"], model) < 1e-2 < distance(runs["bf16 parameters"], runs["fp64"], model)
    with torch.no_grad():
        wanted = model.double()(*(each.double() for each in batches[0])).item()
    model.float()
    assert loss_in_float64(model, trained(model, batches[:1], RECIPES["fp64"], 0.0), batches[:1]) == pytest.approx(
        wanted, rel=1e-6
    )


def test_the_scaler_grows_until_a_step_is_skipped_and_halves_then(fits):
    model, batches, _ = fits
    run = trained(model, batches, RECIPES["fp16 autocast, scaled"], 1e-3, {"init_scale": 2.0**22, "growth_interval": 2})
    assert run.skipped and run.finite and len(run.scales) == len(batches)
    for step in run.skipped[:-1]:
        assert run.scales[step + 1] == run.scales[step] / 2
    assert not trained(model, batches[:1], RECIPES["fp32"], 1e-3).scales


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda: Recipe(updates="fp32"), "'own', 'masters', 'stochastic'"),
        (lambda: trained(Fit(), [], RECIPES["fp32"]), "no batches"),
        (lambda: apart({"fp64": Training((2.0, 1.0), 0.0)}, "fp64"), "one of the runs"),
        (lambda: floors(casts.dtypes(lambda x: x.exp(), torch.ones(3, requires_grad=True))), "0 layer norms"),
    ],
)
def test_what_makes_no_recipe_no_training_and_no_picture_is_refused(call, word):
    with pytest.raises(ValueError, match=word):
        call()


def test_endings_measure_the_way_from_the_start():
    class Line(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.zeros(2))

        def forward(self, x):
            return (self.w * x).sum()

    runs = {
        name: Training((1.0,), stuck, parameters={"w": torch.tensor(end, dtype=torch.float64)})
        for name, stuck, end in (("fp64", 0.0, [3.0, 4.0]), ("bf16", 0.25, [3.0, 3.0]))
    }
    table = endings(runs, "fp64", Line(), [(torch.ones(2, dtype=torch.float64),)], "here")
    assert table.rows == [("fp64", "7.0000", "0 %", "0.0 %"), ("bf16", "6.0000", "20 %", "25.0 %")]


def event(category, name, ts, dur, correlation=None):
    args = {} if correlation is None else {"correlation": correlation}
    return {"ph": "X", "cat": category, "name": name, "ts": ts, "dur": dur, "tid": 1, "args": args}


TRACE = read(
    {
        "traceEvents": [
            event("cpu_op", "aten::_to_copy", 10, 10),
            event("cuda_runtime", "cudaLaunchKernel", 12, 1, 1),
            event("cuda_runtime", "cudaLaunchKernel", 30, 1, 2),
            event("kernel", "copy_kernel", 15, 400, 1),
            event("kernel", "copy_kernel", 420, 200, 2),
            event("kernel", "triton_poi_fused__to_copy_0", 700, 400, 3),
        ]
    }
)


def test_casts_in_a_profile_are_told_by_their_caller_or_by_their_kernels_name():
    assert launched_casts(TRACE, None) == {"kernels": 3, "gpu_ms": 1.0, "cast_kernels": 1, "cast_ms": 0.4}
    named = launched_casts(TRACE, {"triton_poi_fused__to_copy_0"})
    assert (named["cast_kernels"], named["cast_ms"]) == (2, 0.8)
