"""The bubble plot's tables: who waits, what is held, what is sent. Its pictures stand in chapter 12."""

from compile_lab.simulator import pipeline_view
from compile_lab.simulator.pipeline import SCHEDULES, Action, Timeline, simulate


def test_a_measured_timeline_need_not_start_at_nought():
    actions = (Action(0, "F", 0, 0, 1e6 + 5.0, 1e6 + 7.0), Action(0, "B", 0, 0, 1e6 + 8.0, 1e6 + 11.0))
    made = pipeline_view.bubbles(Timeline("GPipe", 1, 1, 1, actions, (1,)), unit="ms")
    assert made.table.rows == [(0, 0.0, 6.0, "16.7%", 1, "0F0 0B0")]
    assert "6 ms in all" in made.legend


def test_tables_say_who_waits_what_is_held_and_what_is_sent():
    rows = pipeline_view.by_rank(simulate("1F1B", 4, 8)).rows
    assert [row[3:5] for row in rows] == [("27.3%", 4), ("27.3%", 3), ("27.3%", 2), ("27.3%", 1)]
    several = {name: simulate(name, 4 * SCHEDULES[name], 8) for name in ("GPipe", "Interleaved1F1B", "ZBVZeroBubble")}
    assert {row[0]: (row[3], row[-1]) for row in pipeline_view.compared(several).rows} == {
        "GPipe": ("8", 2 * 3 * 8),
        "Interleaved1F1B": ("2.5 to 5.5", 2 * 7 * 8),
        "ZBVZeroBubble": ("4", 2 * 6 * 8),
    }
