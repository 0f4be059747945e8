"""The exercises of chapter 06: what is wrong with an answer is said. Its solutions are checked by nbval."""

import math

import pytest

from compile_lab.exercises import check


def in_seconds_only(compile_s, eager_ms, compiled_ms):
    return None if compiled_ms >= eager_ms else math.ceil(compile_s / (eager_ms - compiled_ms))


def always_pays(compile_s, eager_ms, compiled_ms):
    return math.ceil(1000 * compile_s / abs(eager_ms - compiled_ms))


def rounded_down(compile_s, eager_ms, compiled_ms):
    return None if compiled_ms >= eager_ms else int(1000 * compile_s / (eager_ms - compiled_ms))


def subtracts_in_place(x):
    x -= x.mean(-1, keepdim=True)
    return 2 * x / x.std(-1, keepdim=True)


def breaks(x):
    centred = x - x.mean(-1, keepdim=True)
    print("half-way")
    return 2 * centred / centred.std(-1, keepdim=True)


@pytest.mark.parametrize(
    ("name", "answer", "wrong"),
    [
        ("06.1", lambda c, e, k: c / (e - k), "seconds were divided by milliseconds"),
        ("06.1", in_seconds_only, "is that a number of calls"),
        ("06.1", always_pays, "compiling never pays, and yours says 10000"),
        ("06.1", lambda c, e, k: None, "compiling does pay some time"),
        ("06.1", rounded_down, "the first at which compiling has paid?"),
        ("06.1", 5, "asks for a function, not int"),
        ("06.2", lambda costs, calls: min(costs, key=lambda m: costs[m][1]), "for 1 calls"),
        ("06.2", lambda costs, calls: "default", "it chooses 'default'"),
        ("06.3", 0.3, "would leave 8 ms a call"),
        ("06.3", "eight", "asks for a number"),
        ("06.4", subtracts_in_place, "the input is still changed"),
        ("06.4", lambda x: x, "the result is not that of the starter"),
        ("06.4", breaks, "Dynamo made 2 graphs"),
    ],
)
def test_a_wrong_answer_is_told_what_is_wrong_with_it(name, answer, wrong):
    outcome = check(name, answer)
    assert not outcome.passed and wrong in outcome.wrong


def test_right_answers_pass():
    assert check("06.2", lambda costs, n: min(costs, key=lambda m: 1e3 * costs[m][0] + n * costs[m][1])).passed
    assert check("06.3", 8).passed
