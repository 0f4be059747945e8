"""The structured trace as typed events: parsers on real records, and whether compiled code really ran."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from compile_lab import capture
from compile_lab.capture import compilation


def prints(x):
    y = x.sin()
    print("between")
    return y.cos()


def test_events_come_typed_and_in_order(capsys):
    with compilation() as log:
        torch.compile(prints, backend="eager")(torch.ones(3))
    (stopped,) = log.of(capture.BreakReported)
    assert stopped.stack[-1].text == 'print("between")' and not stopped.skipped_for
    assert "print" in stopped.explanation and stopped.hints
    assert log.of(capture.FrameStarted)[0].function == "prints"
    graphs = log.of(capture.GraphMade)
    assert ["sin" in graphs[0].code, "cos" in graphs[1].code] == [True, True]
    assert log.of(capture.GuardTree)
    assert log.graph_calls == 2


def test_unknown_records_are_counted_not_fatal():
    assert capture.parse({"something_new": {}, "frame_id": 0}, "?") is None
    with compilation() as log:
        torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
    assert log.unknown["chromium_event"] > 0


def test_a_training_step_shows_every_stage():
    weight = torch.ones(3, requires_grad=True)
    with compilation() as log:
        torch.compile(lambda x: (x * weight).sum(), backend="aot_eager")(torch.ones(3)).backward()
    assert [event.stage for event in log.of(capture.GraphMade)][:2] == ["dynamo", "joint"]
    assert {"forward", "backward"} <= {event.stage for event in log.of(capture.GraphMade)}


class Watching(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def test_a_dispatch_mode_makes_compiled_code_step_aside_and_the_log_knows():
    fn = torch.compile(lambda x: x.sin() + 1, backend="eager")
    with compilation() as log:
        fn(torch.ones(2))
    log.require_compiled()
    with compilation() as log, Watching():
        fn(torch.ones(2))
    assert log.graph_calls == 0
    with pytest.raises(RuntimeError, match="No compiled graph ran"):
        log.require_compiled()


def test_the_listener_goes_away_even_after_an_error():
    before = list(capture.trace_log.handlers)
    with pytest.raises(ZeroDivisionError), compilation():
        raise ZeroDivisionError
    assert capture.trace_log.handlers == before


def test_recompile_reasons_come_as_text_or_as_a_list():
    one = capture.parse({"artifact": {"name": "recompile_reasons"}}, "0/0: n == 2\nUser stack trace:\n  x")
    many = capture.parse({"artifact": {"name": "recompile_reasons"}}, '["0/1: a", "0/0: b"]')
    assert one.failed == ("0/0: n == 2",) and many.failed == ("0/1: a", "0/0: b")


def test_inductor_writes_its_kernels_into_the_log():
    with compilation() as log:
        torch.compile(lambda x: x.sin() + 1)(torch.ones(64))
    (written,) = log.of(capture.KernelsWritten)
    assert "sin" in written.code
    assert any(event.ops == 2 and event.seconds > 0 for event in log.of(capture.Measured))
