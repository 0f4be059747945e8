"""Limits on memory are real and leave nothing behind; what does not go together is refused."""

import json
import subprocess
import sys

import psutil
import pytest
import torch
from torch import nn

from chapters.activation_checkpointing import view as checkpointing_view
from chapters.activation_checkpointing.experiments import memory_limit
from chapters.shared import subjects
from compile_lab.checkpointing.plan import plans
from compile_lab.checkpointing.strategies import (
    Strategy,
    budgets,
    checkpointed,
    keeping,
)

pytestmark = pytest.mark.processes


@pytest.mark.slow
@pytest.mark.skipif(not memory_limit.available(), reason="a limit on a process's memory needs Linux")
def test_a_step_that_does_not_fit_fits_under_a_budget():
    without, budgeted = memory_limit.steps_under_limit(layers=4, rows=8192)
    assert without.loss_under_limit is None and "can't allocate memory" in without.error
    assert budgeted.loss_under_limit == budgeted.loss == pytest.approx(without.loss, rel=1e-5)


@pytest.mark.parametrize(
    ("size", "named"),
    [
        *(({name: 0}, name) for name in ("layers", "dim", "rows")),
        *(({"budgets": each}, "budgets") for each in ((), (2.0,), (-0.1,))),
    ],
)
def test_a_size_that_a_child_would_stumble_over_is_told_before_it_starts(size, named, monkeypatch):
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("a child was started"))
    with pytest.raises(ValueError, match=f"^{named} is "):
        memory_limit.steps_under_limit(**size)


@pytest.mark.skipif(not memory_limit.available(), reason="a limit on a process's memory needs Linux")
def test_a_caller_that_is_killed_leaves_no_child():
    child = (
        "import os, sys, time; from chapters.activation_checkpointing.experiments import memory_limit; "
        "memory_limit._end_with(int(sys.argv[1])); print(os.getpid(), flush=True); time.sleep(3600)"
    )
    parent = f"import os, subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}, str(os.getpid())])"
    caller = subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE, text=True)
    left = psutil.Process(int(caller.stdout.readline()))
    caller.kill()
    caller.wait()
    assert not psutil.wait_procs([left], timeout=300)[1]


@pytest.mark.skipif(not memory_limit.available(), reason="a limit on a process's memory needs Linux")
def test_a_child_whose_caller_is_gone_before_it_starts_measures_nothing():
    asked = {"layers": 1, "dim": 2, "rows": 2, "budgets": [1], "caller": 1}
    command = [sys.executable, "-m", "chapters.activation_checkpointing.experiments.memory_limit", json.dumps(asked)]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert (ran.returncode, ran.stdout, ran.stderr) == (1, "", "")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Strategy("odd", every=0), "at least one block"),
        (lambda: Strategy("odd", keep=("mm",)), "set every"),
        (lambda: Strategy("odd", budget=0.5), "compiled=True"),
        (lambda: budgets([1.5]), "from 0 to 1"),
        (lambda: keeping(["linear"]), "below autograd"),
        (lambda: keeping(["no_such_operation"]), "below autograd"),
        (lambda: checkpointed(subjects.deep_mlp(2, 8), every=-1), "every=-1: a segment has at least one block"),
        (lambda: checkpointed(subjects.deep_mlp(2, 8), every=0), "every=0: a segment has at least one block"),
        (lambda: checkpointed(nn.Linear(2, 2)), "no ModuleList 'blocks'"),
        (lambda: plans(nn.Linear(2, 2), torch.ones(2), budgets=[2]), "from 0 to 1"),
        (lambda: checkpointing_view.curves([]), "none of these strategies has a memory budget"),
    ],
)
def test_what_does_not_go_together_is_refused(make, said):
    with pytest.raises(ValueError, match=said):
        make()
