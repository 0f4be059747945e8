"""What pages compute with is what the recordings say."""

import pytest

from chapters.return_on_investment.experiments import stored_paybacks
from chapters.shared.compared_modes import comparisons
from compile_lab.recordings import load
from compile_lab.simulator.payback import ONCE, STORED, balance, stored


def test_the_stored_file_is_what_the_recordings_say():
    assert stored_paybacks.PATH.read_text("utf-8") == stored_paybacks.text(list(stored_paybacks.rows())), (
        f"{STORED} is out of date: python -m chapters.return_on_investment.experiments.stored_paybacks writes it again"
    )


@pytest.mark.parametrize(("mode", "way"), stored_paybacks.WAYS.items())
def test_the_break_even_is_the_modes_own(mode, way):
    single = comparisons()["GPT-2 inference, batch 1"]
    row = next(row for row in stored() if row.model == stored_paybacks.MODELS[single.name] and row.way == way)
    value, early, late = balance(row, 0).break_even
    assert value == pytest.approx(single.costs[mode].break_even(single.eager), abs=1) and early < value < late


def test_no_two_compilations_of_one_program_differed_by_more_than_is_taken_for_a_single_one():
    for case in load("payback").result["cases"]:
        times = [case["compile_s"], *(case["predicted"].get("compile_runs_s") or [case["predicted"]["compile_s"]])]
        assert max(times) <= ONCE * min(times), case["name"]
