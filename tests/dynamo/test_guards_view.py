"""Guards and calls as tables."""

import torch

from compile_lab.dynamo import view as guards_view
from compile_lab.dynamo.recompiles import replay


def scaled(x, n):
    return x * n


def test_calls_show_outcome_reason_and_symbolic_inputs():
    shown = guards_view.calls(replay(scaled, [(torch.ones(4), 2), (torch.ones(5), 2), (torch.ones(6), 2)]))
    assert [row[1] for row in shown.rows] == ["compiled", "compiled", "reused"]
    assert shown.rows[1][2] == "tensor 'x' size mismatch at index 0. expected 4, actual 5"
    assert shown.rows[0][3] == "x [4]" and shown.rows[1][3].startswith("x [s") and shown.rows[2][2:] == (None, None)


def test_guards_are_counted_and_listed_by_what_they_speak_of():
    (call,) = replay(scaled, [(torch.ones(4), 2)])
    totals = guards_view.counts(call.guards)
    assert totals.rows[-1][1] == len(call.guards) == sum(row[1] for row in totals.rows[:-1])
    assert [row[1] for row in guards_view.conditions(call.guards, "Python argument").rows] == ["n == 2"]
    assert len(guards_view.conditions(call.guards).rows) == totals.rows[-1][2]
