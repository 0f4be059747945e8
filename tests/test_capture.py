"""The structured trace as typed events: parsers on real records, and whether compiled code really ran."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from compile_lab import capture
from compile_lab.aot.training import training_graphs
from compile_lab.capture import NotCompiledError, compilation
from compile_lab.dynamo.tracing import trace
from compile_lab.inductor.generated import generated_code
from compile_lab.memory.measured import measure_peak
from compile_lab.modes.cost import measure


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


def test_a_dispatch_mode_makes_compiled_code_step_aside_and_the_log_knows():
    fn = torch.compile(lambda x: x.sin() + 1, backend="eager")
    with compilation() as log:
        fn(torch.ones(2))
    log.require_compiled()
    with compilation() as log, FlopCounterMode(display=False):
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


INSTRUMENTS = {
    "trace": trace,
    "training_graphs": training_graphs,
    "generated_code": generated_code,
    "measure": lambda fn, x: measure(fn, x, mode="default", cold=False),
    "measure_peak": lambda fn, x: measure_peak(torch.compile(lambda: fn(x))),
}


@pytest.mark.processes
@pytest.mark.parametrize("name", INSTRUMENTS)
def test_no_instrument_takes_eager_code_for_compiled_code(name):
    with (
        FlopCounterMode(display=False),
        pytest.raises((RuntimeError, NotCompiledError), match=r"FlopCounterMode|compiled"),
    ):
        INSTRUMENTS[name](torch.sin, torch.ones(4, requires_grad=True))
