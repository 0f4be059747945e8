"""The instrument on a toy that remembers how it was called: requests, streams, phases, payback."""

import json
from dataclasses import asdict, replace

import pytest
import torch
from toy_service import LONG, TOY, USUAL, decode, prefill

from compile_lab.capture import NotCompiledError
from compile_lab.inference.service import Answer, PhaseCost, Stream, payback, phase_cost, serve
from compile_lab.modes.cost import Quartiles
from compile_lab.simulator.payback import ONCE

pytestmark = pytest.mark.processes


def spied():
    calls = []

    def keeping(name, read):
        def called(tokens, places):
            calls.append((name, tuple(tokens.shape), places.tolist(), torch.is_grad_enabled()))
            return read(tokens, places)

        return called

    return calls, replace(TOY, prefill=keeping("prefill", prefill), decode=keeping("decode", decode))


def test_a_request_is_one_prefill_and_a_step_for_each_further_token_at_the_next_position():
    calls, endpoint = spied()
    stream = serve(endpoint, [LONG, USUAL])
    assert calls == [
        ("prefill", (2, 6), [6, 6], False),
        ("decode", (2,), [6, 6], False),
        ("prefill", (1, 4), [4], False),
        ("decode", (1,), [4], False),
        ("decode", (1,), [5], False),
    ]
    assert [answer.number for answer in stream.answers] == [1, 2] and stream.compilations == {}
    assert torch.is_grad_enabled()


def made(mode, usual_ms, first_ms, spread=0.0):
    times = [first_ms] + [usual_ms * (1 + spread * (at % 3 - 1)) for at in range(20)]
    answers = [Answer(n, USUAL, ms / 4, ms * 3 / 4, 2 * (n == 1 and mode != "eager")) for n, ms in enumerate(times, 1)]
    return Stream(mode, (*answers, Answer(22, LONG, 1000.0, 0.0, 1)))


def test_what_is_settled_and_invested_follows_from_the_answers():
    stream = made("default", 10.0, 4010.0)
    assert stream.settled(USUAL) == Quartiles(10, 10, 10) and stream.invested_s(USUAL) == pytest.approx(4.0)
    assert stream.tokens_per_s(USUAL) == pytest.approx(300) and stream.compilations == {1: 2, 22: 1}
    assert stream.settled(LONG) is None and stream.invested_s(LONG) is None
    assert Stream.from_json(json.loads(json.dumps(stream.to_json()))) == stream


def test_payback_is_the_first_request_at_which_both_have_taken_as_long():
    eager, compiled = made("eager", 20.0, 20.0), made("default", 10.0, 4010.0)
    found = payback(compiled, eager, USUAL)
    assert (found.invested_s, found.saved_ms, found.requests) == (pytest.approx(4.0), 10.0, 400)
    assert found.low == pytest.approx(400 / ONCE, abs=1) and found.high == pytest.approx(400 * ONCE, abs=1)
    others = payback(compiled, eager, USUAL, {"default": [made("default", 10.0, first) for first in (6010.0, 3010.0)]})
    assert (others.low, others.requests, others.high) == (300, 400, 600), "as dear as other starts were"
    assert payback(eager, compiled, USUAL).requests is None, "eager saves nothing"
    assert payback(compiled, eager, LONG) is None


def test_paybacks_interval_holds_it_and_may_be_endless():
    eager = made("eager", 20.0, 20.0, spread=0.1)
    found = payback(made("default", 10.0, 4010.0, spread=0.1), eager, USUAL)
    assert found.low < found.requests < found.high
    close = payback(made("default", 19.5, 4019.5, spread=0.1), eager, USUAL)
    assert close.requests == 8000 and close.high is None


def test_a_phase_is_timed_at_its_shape():
    calls, endpoint = spied()
    cost = phase_cost(endpoint, "decode", LONG)
    assert {call[:3] for call in ((c[0], c[1], tuple(c[2])) for c in calls)} == {("decode", (2,), (5, 5))}
    assert cost.call.low_ms <= cost.call.median_ms <= cost.call.high_ms and cost.compilations == 0
    assert cost.tokens_per_s == pytest.approx(2 / cost.call.median_ms * 1e3)
    assert PhaseCost.from_json(json.loads(json.dumps(asdict(cost)))) == cost
    assert phase_cost(endpoint, "prefill", LONG).request.prompt == 6


def test_what_compiled_nothing_is_not_told_as_compiled():
    pretending = replace(TOY, mode="default", since=10**9)
    with pytest.raises(NotCompiledError, match="'default' compiled nothing"):
        serve(pretending, [USUAL])
