"""The recorded training runs, and the experiment itself on a small model."""

import pytest
import torch

from chapters.is_it_right.diffusion import DiffusionTransformer, flow_batch
from chapters.is_it_right.experiments import wrong_gradient
from chapters.is_it_right.experiments.wrong_gradient import COMPILED, EAGER, SWITCHED, DiffusionRun, recorded
from compile_lab import recordings

RUNS, TABLES = recorded(recordings.load("wrong_gradient").result)


def test_the_recorded_fault_is_in_the_compiled_runs_of_one_sample_alone():
    for run in RUNS:
        faulty = run.way == COMPILED and run.samples == 1
        assert (max(run.first_errors.values()) > 1) is faulty, (run.way, run.precision, run.samples)
        assert len(run.losses) == 300 and {len(each) for each in run.table_norms} == {300}
    assert [row.shape for row in TABLES if row.compiled > 0.5] == [
        shape for shape in wrong_gradient.LAYER_NORMS if shape[0] * shape[1] >= 8192 and shape[2] >= 768
    ]
    assert all(row.switched < 1e-4 for row in TABLES)


@pytest.mark.slow
def test_the_experiment_trains_each_way_from_the_same_weights():
    sizes = {"steps": 2, "shapes": ((1, 64),), "dim": 64, "layer_norms": ((1, 64, 32),)}
    result = wrong_gradient.record("cpu", **sizes, precisions=("fp32",), seeds=(0, 1))
    runs, rows = recorded(result)
    assert [(run.way, run.seed) for run in runs] == [(EAGER, 0), (COMPILED, 0), (SWITCHED, 0), (EAGER, 1)]
    assert runs[0].losses == pytest.approx(runs[1].losses, rel=1e-4) and runs[0].losses != runs[3].losses
    assert rows[0].compiled < 1e-5 and not result["stopped"]
    assert DiffusionRun.from_json(vars(runs[0]) | {"losses": list(runs[0].losses)}) == runs[0]


def test_the_model_learns_what_flows_from_noise_to_data():
    draw = torch.Generator().manual_seed(0)
    noisy, time, flow = flow_batch(3, 16, draw)
    assert noisy.shape == flow.shape == (3, 16, 16) and time.shape == (3,)
    torch.manual_seed(0)
    model = DiffusionTransformer(16, 32, 1, 2)
    loss = model(noisy, time, flow)
    loss.backward()
    assert loss.shape == () and model.blocks[0].table.grad.abs().sum() > 0
