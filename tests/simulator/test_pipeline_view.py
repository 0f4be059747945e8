"""The bubble plot's tables: who waits, what is held, what is sent. Its pictures stand in chapter 12."""

from compile_lab.simulator import pipeline_view
from compile_lab.simulator.pipeline import Action, Timeline


def test_a_measured_timeline_need_not_start_at_nought():
    actions = (Action(0, "F", 0, 0, 1e6 + 5.0, 1e6 + 7.0), Action(0, "B", 0, 0, 1e6 + 8.0, 1e6 + 11.0))
    made = pipeline_view.bubbles(Timeline("GPipe", 1, 1, 1, actions, (1,)), unit="ms")
    assert made.table.rows == [(0, 0.0, 6.0, "16.7 %", 1, "0F0 0B0")]
    assert "6 ms in all" in made.legend
