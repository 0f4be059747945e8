"""A break-even and how sure it is: the interval, the refusals, and two sums that cross."""

import json
import random
from dataclasses import asdict

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


def crossed(name: str = "chain", steps: int | None = 100) -> Crossing:
    predicted = payback(1.0, samples(20, 0.1), samples(10, 0.1, seed=1))
    curve = ((3, 0.06, 1.03), (103, 2.06, 2.03))
    return Crossing(name, "what", "default", predicted, 1.0, steps, curve, "wall seconds")


def test_the_interval_holds_the_quotient_and_is_the_same_each_time():
    one = payback(24, samples(30), samples(27, seed=1))
    assert one.verdict == "pays" and one.low < one.steps < one.high
    assert one.low < 24_000 / 3 < one.high
    assert one == payback(24, samples(30), samples(27, seed=1))
    assert str(one) == f"{one.steps:,} steps [{one.low:,} to {one.high:,}]"


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


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ((1, [], []), "eager_ms has no samples"),
        ((-1, [1.0] * 5, [1.0] * 5), "compile_s has -1"),
        ((1, [1.0] * 5, [1.0] * 4 + [0.0]), "compiled_ms has 0"),
        ((1, [1.0] * 5, [1.0] * 6), "5 samples of eager steps and 6 of compiled ones"),
        ((1, [1.0] * 4, [1.0] * 4), "at least 5"),
        ((float("nan"), [1.0] * 5, [1.0] * 5), "compile_s has nan"),
    ],
)
def test_times_that_are_none_are_refused(given, error):
    with pytest.raises(ValueError, match=error):
        payback(*given)


def test_two_sums_cross_where_the_second_becomes_the_smaller():
    assert first_crossing([(10, 1.0, 2.0), (20, 2.0, 2.5), (30, 3.0, 3.0), (40, 4.0, 3.5)]) == 30
    assert first_crossing([(10, 1.0, 2.0), (20, 3.0, 2.0)]) == 15
    assert first_crossing([(10, 1.0, 2.0)]) is None
    with pytest.raises(ValueError, match="must grow"):
        first_crossing([(10, 1.0, 2.0), (10, 1.0, 2.0)])


def test_a_crossing_survives_json_and_judges_its_prediction():
    one = crossed(steps=102)
    assert Crossing.from_json(json.loads(json.dumps(asdict(one)))) == one
    assert one.within(0.2) and not crossed(steps=300).within(0.2)
    assert crossed(steps=None).ratio is None


def test_a_mode_that_compiles_nothing_is_refused():
    with pytest.raises(ValueError, match="compiles nothing"):
        crossing("x", "x", torch.sin, torch.ones(2), mode="eager")
    with pytest.raises(KeyError, match="there are RMSNorm"):
        cases.measured("nothing")


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
        return crossed(name)

    monkeypatch.setattr(cases, "measured", broken)
    found = cases.record("cpu")
    assert found["stopped"] == {"GELU": "RuntimeError: no such kernel"}
    assert len(found["cases"]) >= 10 and json.loads(json.dumps(found))["cases"]
