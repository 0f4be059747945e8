"""Forecasts of recompiles agree with what torch then does."""

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from compile_lab.dynamo.recompiles import replay, watch, would_recompile

pytestmark = pytest.mark.processes


def scaled(x, n):
    return x * n + x.shape[0]


def test_the_forecast_is_what_torch_then_says():
    """Chapter 2 asks of sizes, dtypes, grad modes and modules; here of what it leaves out."""
    watched = watch(scaled)
    watched(torch.ones(4), 2)
    stride = "tensor 'x' stride mismatch at index 0. expected 1, actual 4"
    for args, failed in (((torch.ones(4), 2), ()), ((torch.ones(4, 4)[:, 0], 2), (stride,))):
        forecast = would_recompile(watched, *args)
        assert tuple(each.guard for each in forecast.failed) == failed and forecast.recompiles is bool(failed)
        watched(*args)
        last = watched.calls[-1]
        assert (last.outcome, last.failed) == ("compiled" if failed else "reused", failed)


def test_every_compilation_is_asked_and_of_a_chain_of_bounds_the_one_that_fails_is_named():
    watched = watch(lambda x: x.sin() if x.shape[0] <= 64 else x.cos())
    for length in (5, 6):
        watched(torch.ones(length))
    assert [str(failed) for failed in would_recompile(watched, torch.ones(1)).failed] == [
        "0/1 fails 2 <= x.size()[0] <= 64",
        "0/0 fails tensor 'x' size mismatch at index 0. expected 5, actual 1",
    ]


def test_compiled_functions_of_any_backend_modules_closures_and_library_modules_can_be_asked():
    gain = 3
    closed = torch.compile(lambda x, *more, scale=1: x * gain * scale + len(more), backend="aot_eager")
    closed(torch.ones(2), 1, scale=2)
    assert would_recompile(closed, torch.ones(2), 1, scale=2).fits
    assert would_recompile(closed, torch.ones(2), 1, scale=5).failed[0].guard == "scale == 2"
    gain = 4
    assert would_recompile(closed, torch.ones(2), 1, scale=2).failed[0].guard == "gain == 3"

    for model in (nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 2), nn.ReLU())):
        compiled = torch.compile(model, backend="eager")
        compiled(torch.ones(1, 2))
        assert would_recompile(compiled, torch.ones(1, 2)).fits
        assert "expected 1, actual 3" in str(would_recompile(compiled, torch.ones(3, 2)))


def test_an_error_of_the_function_is_an_outcome_and_comes_through():
    def short(x):
        if x.shape[0] > 4:
            raise ValueError("too long")
        return x.sin()

    # After an input that raises, torch leaves the function to Python for good, though its compiled code still fits.
    calls = replay(short, [(torch.ones(size),) for size in (3, 5, 3)])
    assert [call.outcome for call in calls] == ["compiled", "raised ValueError", "eager"]
    assert calls[2].forecast.fits == "0/0"
    watched = watch(short)
    with pytest.raises(ValueError, match="too long"):
        watched(torch.ones(5))
    assert watched.calls[0].outcome == "raised ValueError"


def test_a_call_under_a_dispatch_mode_is_called_eager():
    watched = watch(scaled)
    watched(torch.ones(4), 2)
    with FlopCounterMode(display=False):
        watched(torch.ones(4), 2)
    assert watched.calls[-1].outcome == "eager" and "dispatch key set" in str(watched.calls[-1].forecast)
