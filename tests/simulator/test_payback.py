"""The calculator of chapter 19: break-even as an interval, restarts, and numbers checked another way."""

import itertools
import math
import random

import pytest

from compile_lab.page.axes import first
from compile_lab.simulator import payback_view
from compile_lab.simulator.payback import CompiledWay, Interval, balance

GPT = CompiledWay(
    "GPT", "whole", 90.0, Interval(24, 23, 25), {"cold": Interval(43, 40, 50), "warm": Interval(8, 7, 10)}
)
SLOWER = CompiledWay("MLP", "blocks", 30.0, Interval(-0.2, -0.5, 0.1), {"cold": Interval(15, 15, 15)})


def test_the_interval_of_the_break_even_holds_ninety_five_of_a_hundred_draws():
    """Drawn as normal, with the half-widths 1.96 standard deviations: another way to the same ends."""
    draw = random.Random(0)
    even = sorted(draw.gauss(40, 2 / 1.96) * 1e3 / draw.gauss(24, 3 / 1.96) for _ in range(40_000))
    way = CompiledWay("GPT", "whole", 90.0, Interval(24, 21, 27), {"cold": Interval(40, 38, 42)})
    _, early, late = balance(way, 0).break_even
    assert even[1_000] == pytest.approx(early, rel=0.01) and even[39_000] == pytest.approx(late, rel=0.01)


def test_at_the_ends_of_the_break_even_the_net_interval_leaves_zero():
    _, early, late = balance(GPT, 0, 5, "warm").break_even
    for steps, end in ((early, "high"), (late, "low")):
        net = [getattr(balance(GPT, round(steps * by), 5, "warm").net_s, end) for by in (0.999, 1.001)]
        assert net[0] < 0 < net[1]


def test_restarts_use_the_saving_up_where_the_division_says():
    found = balance(GPT, 100_000, 3, "warm")
    assert found.restarts[0] == pytest.approx((100_000 * 0.024 - 43) / 8)
    assert balance(GPT, 100_000, math.ceil(found.restarts[2]), "warm").net_s.high < 60
    assert found.compile_s.value == 43 + 3 * 8
    assert balance(GPT, 100_000, 3, "warm", shipped=True).compile_s.value == 4 * 8


def test_what_saves_nothing_never_pays():
    found = balance(SLOWER, 10_000)
    assert found.break_even[0] == math.inf and found.break_even[2] == math.inf and found.verdict == "loses"
    assert found.break_even[1] == pytest.approx(15e3 / 0.1) and found.restarts[0] == 0


def test_an_interval_from_quartiles_is_that_of_the_median():
    draw, medians = random.Random(1), []
    for _ in range(2_000):
        medians.append(sorted(draw.gauss(0, 1) for _ in range(101))[50])
    medians.sort()
    found = Interval.from_quartiles(0.0, -0.6745, 0.6745, 101)
    assert found.low == pytest.approx(medians[50], abs=0.04) and found.high == pytest.approx(medians[1_949], abs=0.04)


CHOICE = {name: first(axis) for name, axis in payback_view.axes().items()}


def test_a_row_survives_being_stored():
    assert CompiledWay.from_json(GPT.to_json()) == GPT


@pytest.mark.parametrize("restarts", [0, 200])
def test_any_choice_is_drawn(restarts):
    for steps, model in itertools.product((1, 12_345, 10_000_000), (CHOICE["model"], payback_view.OWN)):
        told, line, _ = payback_view.panel(**CHOICE | {"model": model, "steps": steps, "restarts": restarts})
        assert "nan" not in line.body and "inf" not in line.body and "**" in told
