"""Overlap as a reader sees it: tables that agree with the spans."""

import pytest

from chapters.overlap import view
from compile_lab.devices.steps import StepRun
from compile_lab.simulator import overlap_view
from compile_lab.simulator.overlap import Span, Transfer, overlap_of
from compile_lab.simulator.wire import MB


@pytest.fixture
def found():
    """Compute 12 to 14 and 15 to 18 ms after the start of the trace, the forward at 10; two lanes."""
    sent = [Transfer("all_reduce", 13, 16, 2_000_000, 0.0), Transfer("all_reduce", 17, 20, 4_000_000, 0.0, 1)]
    phases = {"forward": Span(10, 12), "gradients": Span(12, 18)}
    return overlap_of([Span(12, 14), Span(15, 18)], sent, phases)


def test_the_tables_say_what_the_bars_say(found):
    (row,) = overlap_view.summary({"": found}).rows
    assert row == ("one step", 2, 6.0, 5, 6, 3, "50 %", 8)
    first, second = overlap_view.collectives(found).rows
    assert first == ("all_reduce", 2.0, 3, 6, 3, "67 %") and second[-1] == "33 %"
    assert overlap_view.collectives(found, most=1).rows[-1][0] == "and 1 more"


def test_the_title_says_what_is_exposed_without_the_short_computation_under_it():
    computed = [Span(0, 50), *(Span(50.5 + at, 50.7 + at) for at in range(50))]
    drawn = overlap_view.timeline(overlap_of(computed, [Transfer("all_reduce", 40, 100, MB, 0.0)]))
    assert drawn.title == "Exposed communication: 40 of 60 ms."


def test_steps_of_ranks_are_told_by_the_slowest(found):
    runs = [StepRun(10, 9, 12, found), StepRun(11, 10, 13, found)]
    sent, alone = view.steps({"sent": runs, "alone": [StepRun(5, 4, 6, overlap_of([Span(0, 5)], [], alone=True))]}).rows
    assert sent == ("sent", 2, "11.0", "10.0 to 13.0", "3.0 / 3.0", "50 % / 50 %")
    assert alone == ("alone", 0, "5.0", "4.0 to 6.0", None, None)
