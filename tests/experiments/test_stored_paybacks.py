"""What pages compute with is what the recordings say."""

import pytest

from compile_lab.experiments import stored_paybacks
from compile_lab.modes import compared
from compile_lab.recordings import load
from compile_lab.simulator.payback import STORED, balance, stored


def test_the_stored_file_is_what_the_recordings_say():
    assert stored_paybacks.PATH.read_text("utf-8") == stored_paybacks.text(list(stored_paybacks.rows())), (
        f"{STORED} is out of date: python -m compile_lab.experiments.stored_paybacks writes it again"
    )


@pytest.mark.parametrize(("mode", "way"), stored_paybacks.WAYS.items())
def test_the_break_even_is_the_modes_own(mode, way):
    training = compared(load("modes"))["GPT-2 training"]
    row = next(row for row in stored() if row.model == stored_paybacks.MODELS[training.name] and row.way == way)
    value, early, late = balance(row, 0).break_even
    assert value == pytest.approx(training.costs[mode].break_even(training.eager), abs=1) and early < value < late
