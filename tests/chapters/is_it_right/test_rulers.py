"""The recording of two rulers, what a limit makes of it, and how a subject is measured."""

import math

import pytest
import torch

from chapters.is_it_right.experiments import rulers as recording
from chapters.is_it_right.rulers import Measured, measured, right, wrong
from compile_lab import recordings
from compile_lab.judge.judging import WRONG

ROWS = recording.recorded(recordings.load("rulers").result)


def test_the_recording_has_every_subject_and_reads_back():
    assert [row.name for row in ROWS] == [name for name, *_ in right()] + [name for name, *_ in wrong()]
    assert [Measured.from_json(row.to_json()) for row in ROWS] == ROWS
    assert math.isinf(Measured.from_json(Measured("a", True, math.inf, 1.0).to_json()).tolerance)


@pytest.mark.processes
def test_a_subject_is_measured_by_both():
    row = measured("a sum", lambda x: x.sum(-1), torch.randn(4, 64, requires_grad=True))
    assert not row.wrong and row.units < WRONG and row.tolerance < 1e-4 and row.refused == 0


@pytest.mark.slow
def test_the_experiment_measures_both_kinds():
    rows = recording.recorded(recording.record("cpu", most=1))
    assert [(row.wrong, row.units > WRONG) for row in rows] == [(False, False), (True, True)]
