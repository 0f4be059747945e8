"""Signals that ask a run to stop: who is asked again when it is over."""

import signal

from mini_model import stops


def test_a_handler_that_python_did_not_set_stays(monkeypatch):
    plain, asked = signal.getsignal, []
    monkeypatch.setattr(signal, "getsignal", lambda number: None if number == signal.SIGTERM else plain(number))
    monkeypatch.setattr(signal, "signal", lambda number, handler: asked.append((number, handler)))
    with stops.noted():
        assert signal.SIGINT in dict(asked)
    assert signal.SIGTERM not in dict(asked)
    assert asked[-1][1] == plain(asked[-1][0])
