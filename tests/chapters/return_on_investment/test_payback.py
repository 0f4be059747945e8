"""A break-even and how sure it is: the interval, the refusals, and two sums that cross."""

import json
import random

import pytest
import torch

from chapters.return_on_investment.experiments import payback as cases
from compile_lab.modes import crossing as measuring
from compile_lab.modes.crossing import crossing
from compile_lab.modes.payback import Crossing, first_crossing, payback

pytestmark = pytest.mark.processes


def samples(middle: float, apart: float = 1.0, count: int = 40, seed: int = 0) -> list[float]:
    draw = random.Random(seed)
    return [middle + draw.gauss(0, apart) for _ in range(count)]


def double(x: torch.Tensor) -> torch.Tensor:
    return 2 * x


def test_the_interval_holds_the_quotient_and_is_the_same_each_time():
    one = payback(24, samples(30), samples(27, seed=1))
    assert one.verdict == "pays" and one.low < one.steps < one.high
    assert one.low < 24_000 / 3 < one.high
    assert one == payback(24, samples(30), samples(27, seed=1))


def test_the_interval_of_the_saving_holds_the_truth_about_as_often_as_it_says():
    held = 0
    for seed in range(60):
        one = payback(24, samples(30, seed=seed), samples(27, seed=1000 + seed))
        held += one.saved_low_ms <= 3 <= one.saved_high_ms
    assert 52 <= held <= 60


def test_what_cannot_be_told_apart_is_maybe_never_and_what_is_slower_is_never():
    unsure = payback(24, samples(30), samples(30, seed=1))
    assert unsure.verdict == "maybe never" and unsure.high is None and unsure.low
    assert "at the earliest" in str(unsure)
    never = payback(24, samples(27), samples(30, seed=1))
    assert (never.verdict, str(never), never.steps, never.low) == ("never", "never", None, None)


def test_several_compile_times_widen_the_interval():
    narrow = payback(24, samples(30, 0.01), samples(27, 0.01, seed=1))
    wide = payback([20, 24, 28], samples(30, 0.01), samples(27, 0.01, seed=1))
    assert wide.high - wide.low > 10 * (narrow.high - narrow.low)


FIVE = [1.0] * 5
REFUSED = [
    (lambda: payback(1, [], []), "eager_ms has no samples"),
    (lambda: payback(-1, FIVE, FIVE), "compile_s has -1"),
    (lambda: payback(1, FIVE, [*FIVE[1:], 0.0]), "compiled_ms has 0"),
    (lambda: payback(1, FIVE, [*FIVE, 1.0]), "5 samples of eager steps and 6 of compiled ones"),
    (lambda: payback(1, FIVE[1:], FIVE[1:]), "at least 5"),
    (lambda: payback(float("nan"), FIVE, FIVE), "compile_s has nan"),
    (lambda: first_crossing([(10, 1.0, 2.0), (10, 1.0, 2.0)]), "must grow"),
    (lambda: cases.measured("nothing"), "there are RMSNorm"),
]


@pytest.mark.parametrize(("call", "words"), REFUSED, ids=[words for _, words in REFUSED])
def test_what_is_no_time_no_curve_and_no_case_is_refused(call, words):
    with pytest.raises((ValueError, KeyError), match=words):
        call()


def test_two_sums_cross_where_the_second_becomes_the_smaller():
    assert first_crossing([(10, 1.0, 2.0), (20, 2.0, 2.5), (30, 3.0, 3.0), (40, 4.0, 3.5)]) == 30, "on a point"
    assert first_crossing([(10, 1.0, 2.0)]) is None


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_two_short_runs_predict_where_the_sums_cross_though_every_step_is_unsteady(monkeypatch, seed):
    """A clock of ours, so that no other program on the machine is timed: 30 ms or 20 a step, a tenth more or less."""
    draw, now, seen = random.Random(seed), [0.0], []
    monkeypatch.setattr(measuring, "seconds", lambda device: now[0])

    def step(called):
        if called is not double and not any(called is one for one in seen):
            seen.append(called)
            now[0] += 1.5
        now[0] += (0.030 if called is double else 0.020) * draw.gauss(1, 0.1)

    one = crossing("double", "a call", double, step=step, most_s=60)
    assert len(seen) == 4, "compiled three times for the prediction and once to be run, each time from nothing"
    assert len(one.predicted.compile_runs_s) == 3
    assert one.predicted.compile_s == pytest.approx(1.5, abs=0.05)
    assert one.within(0.2) and one.predicted.verdict == "pays"
    assert one.steps == pytest.approx(150, rel=0.2), "1.5 s at 10 ms a step"


@pytest.mark.slow
def test_long_runs_that_do_not_cross_end_with_their_time(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(measuring, "seconds", lambda device: now[0])

    def step(called):
        now[0] += 0.030 if called is double else 0.040

    one = crossing("double", "a call", double, step=step, most_s=5)
    assert (one.predicted.verdict, one.steps) == ("never", None)
    assert 5 <= one.curve[-1][1] < 5.2


def test_a_case_that_breaks_is_told_and_the_others_stand(monkeypatch):
    def broken(name: str, device: str) -> Crossing:
        if name == "GELU":
            raise RuntimeError("no such kernel")
        predicted = payback(1.0, samples(20, 0.1), samples(10, 0.1, seed=1))
        return Crossing(name, "what", "default", predicted, 1.0, 100, ((103, 2.06, 2.03),), "wall seconds")

    monkeypatch.setattr(cases, "measured", broken)
    found = cases.record("cpu")
    assert found["stopped"] == {"GELU": "RuntimeError: no such kernel"}
    assert len(found["cases"]) >= 10 and json.loads(json.dumps(found))["cases"]
