"""Steps of ranks, told by the slowest."""

import pytest

from chapters.overlap import view as devices_view
from compile_lab.devices.steps import StepRun
from compile_lab.simulator.overlap import Span, Transfer, overlap_of


@pytest.fixture
def found():
    """Compute 12 to 14 and 15 to 18 ms after the start of the trace, the forward at 10; two lanes."""
    sent = [Transfer("all_reduce", 13, 16, 2_000_000, 0.0), Transfer("all_reduce", 17, 20, 4_000_000, 0.0, 1)]
    phases = {"forward": Span(10, 12), "gradients": Span(12, 18)}
    return overlap_of([Span(12, 14), Span(15, 18)], sent, phases)


def test_steps_of_ranks_are_told_by_the_slowest(found):
    runs = [StepRun(10, 9, 12, found), StepRun(11, 10, 13, found)]
    sent, alone = devices_view.steps(
        {"sent": runs, "alone": [StepRun(5, 4, 6, overlap_of([Span(0, 5)], [], alone=True))]}
    ).rows
    assert sent == ("sent", 2, "11.0", "10.0 to 13.0", "3.0 / 3.0", "50 % / 50 %")
    assert alone == ("alone", 0, "5.0", "4.0 to 6.0", None, None)
