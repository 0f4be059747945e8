"""The recording of a service: its plan on a GPU, a try-out on this CPU, and what becomes of parts that break."""

import json
import math
import time
from dataclasses import replace

import pytest

from chapters.inference.experiments import inference
from chapters.inference.experiments.inference import GPT2, TINY, ServicePlan, record
from chapters.inference.roofline_view import roofline
from chapters.inference.service_view import latencies
from compile_lab.inference.served import recorded
from compile_lab.recordings import Provenance, Recording

pytestmark = pytest.mark.processes

FROM = Provenance("CPU, 2 cores", "2.13.0", None, None, "2026-11-23", "a test", "recorded")


def as_recorded(result):
    return recorded(Recording("inference", FROM, json.loads(json.dumps(result))))


@pytest.mark.slow
def test_a_try_out_has_streams_phases_a_restart_and_a_roofline():
    found = as_recorded(record("cpu", budget_s=600))
    model = found.models["tiny"]
    assert not model.stopped and [cost.stopped for cost in model.phases] == [""] * 6
    assert model.streams["eager"].compilations == {} and model.streams["default"].compilations == {1: 2, 9: 2}
    assert sum(cost.compilations for cost in model.phases) == 0, "the stream and the check left nothing to compile"
    assert all(model.errors[mode] < 1e-5 for mode in ("eager", "default"))
    assert model.restart.compilations == {1: 2} and model.import_s > 0
    assert model.phase("decode", "default", 4, 4).call and model.phase("decode", "default", 99, 4) is None
    assert model.work.slots == 4, "the slots that the usual prompt fills, not the 32 that there are"
    assert model.phase("decode", "eager", 1, 4).host.issued_us > 0
    # 12 dim² + 13 dim of the one layer, 2 dim of the last norm, the head with its bias: four bytes each.
    assert model.work.weights_nbytes == 4 * (12 * 256 + 13 * 16 + 2 * 16 + 30 * 16 + 30)
    assert "Request 1 takes" in latencies(model.streams).alt
    assert roofline(model.work, model.phases, found.bytes_per_s, found.flop_per_s, found.provenance).table.rows


@pytest.mark.slow
def test_a_part_that_breaks_is_told_and_the_others_stand(monkeypatch):
    def broken(device):
        raise RuntimeError("no such kernel\nand much more")

    plans = (replace(TINY, name="broken", build=broken, modes=("eager",)), replace(TINY, modes=("eager",)))
    monkeypatch.setitem(inference.PLANS, "cpu", plans)
    found = as_recorded(record("cpu", budget_s=math.inf))
    assert found.models["broken"].stopped == {"eager": "RuntimeError: no such kernel"}
    assert found.models["tiny"].streams["eager"].answers and not found.models["tiny"].stopped


@pytest.mark.slow
def test_a_shape_that_breaks_is_told_in_its_place(monkeypatch):
    monkeypatch.setitem(inference.PLANS, "cpu", (replace(TINY, modes=("eager",), decode=(1, 5)),))
    model = as_recorded(record("cpu", budget_s=math.inf)).models["tiny"]
    assert [cost.stopped[:40] for cost in model.phases] == ["", "", "ValueError: request 5 × 4 + 1: its batch"]


def test_without_time_nothing_is_begun_and_all_of_it_says_so():
    model = as_recorded(record("cpu", budget_s=0.0)).models["tiny"]
    assert model.stopped == dict.fromkeys(("eager", "default"), inference.OUT_OF_TIME)
    assert not model.streams and not model.phases and model.restart is None


@pytest.mark.parametrize("plan", [GPT2, TINY])
def test_what_a_plan_asks_for_fits_its_cache(plan: ServicePlan):
    from mini_model.model import config

    slots = 32 if plan is TINY else config(plan.name).context
    rows = {"gpt2-124m": 256, "tiny": 4}[plan.name]
    asked = [*plan.requests("default"), *(request for _, request in plan.shapes("default"))]
    assert all(each.batch <= rows and each.prompt + each.new_tokens - 1 <= slots for each in asked)
    assert plan.requests("default")[: plan.many] == [plan.usual] * plan.many and len(set(asked)) > 3
    assert len(set(plan.requests("max-autotune"))) == 1


def test_an_error_shows_a_cache_that_is_looked_at_wrongly():
    cached = TINY.build("cpu")
    endpoint = inference.endpoint_of(cached, "cpu")
    assert inference.cache_error(cached, endpoint, TINY.usual) < 1e-5
    late = replace(endpoint, decode=lambda tokens, positions: cached.decode(tokens, positions + 1))
    assert inference.cache_error(cached, late, TINY.usual) > 1e-2


@pytest.mark.slow
def test_a_mode_in_a_process_of_its_own_gives_the_same_and_says_why_if_it_does_not():
    found = inference._nothing_yet(TINY)
    inference._by_itself(TINY, "eager", "cpu", found, time.monotonic() + 600)
    assert len(found["streams"]) == 1 and len(found["phases"]) == 3 and found["seconds"]["eager"] > 0
    with pytest.raises(RuntimeError, match="StopIteration"):
        inference._by_itself(replace(TINY, name="none"), "eager", "cpu", inference._nothing_yet(TINY), time.monotonic())


@pytest.mark.slow
def test_a_second_process_that_fails_says_why(monkeypatch):
    with pytest.raises(RuntimeError, match="StopIteration"):
        inference.restarted("no such model", "cpu")
