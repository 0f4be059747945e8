"""The exercises of chapter 06: what is wrong with an answer is said. Its solutions are checked by nbval."""

import math
from statistics import mean, median

from answers import judged_as


def in_seconds_only(compile_s, eager_ms, compiled_ms):
    return None if compiled_ms >= eager_ms else math.ceil(compile_s / (eager_ms - compiled_ms))


def always_pays(compile_s, eager_ms, compiled_ms):
    return math.ceil(1000 * compile_s / abs(eager_ms - compiled_ms))


def rounded_down(compile_s, eager_ms, compiled_ms):
    return None if compiled_ms >= eager_ms else int(1000 * compile_s / (eager_ms - compiled_ms))


def breaks(x):
    centred = x - x.mean(-1, keepdim=True)
    print("half-way")
    return 2 * centred / centred.std(-1, keepdim=True)


test_a_wrong_answer_is_told_what_is_wrong_with_it = judged_as(
    ("06.1", in_seconds_only, "is that a number of calls"),
    ("06.1", always_pays, "compiling never pays, and yours says 10000"),
    ("06.1", lambda c, e, k: None, "compiling does pay some time"),
    ("06.1", rounded_down, "the first at which compiling has paid?"),
    ("06.2", lambda costs, calls: "default", "it chooses 'default'"),
    ("06.3", 0.3, "would leave 8 ms a call"),
    ("06.4", lambda x: x, "the result is not that of the starter"),
    ("06.4", breaks, "Dynamo made 2 graphs"),
)


def stopwatch(call, wait, clock, *, drains=True, waits=True, first=5, calls=40, samples=25, of_samples=median):
    """A right answer to 06.5, and with other arguments one that is nearly right."""

    def seconds(calls):
        if drains:
            wait()
        start = clock()
        for _ in range(calls):
            call()
        if waits:
            wait()
        return clock() - start

    first_s = seconds(first)
    call_s = of_samples([seconds(calls) / calls for _ in range(samples)])
    return first_s - first * call_s, 1000 * call_s


def compiling_included(call, wait, clock):
    start = clock()
    for _ in range(1000):
        call()
    wait()
    return 8.0, clock() - start


def first_calls_whole(call, wait, clock):
    first_s, call_ms = stopwatch(call, wait, clock, first=1000)
    return first_s + call_ms, call_ms


def with_options(**options):
    return lambda call, wait, clock: stopwatch(call, wait, clock, **options)


test_a_stopwatch_that_is_nearly_right_is_told_what_it_times = judged_as(
    (with_options(calls=25, samples=60, first=3, of_samples=min), "right."),
    (with_options(waits=False, drains=False), "2 ms on the GPU, compiled in 8 s, it says 0.25 ms a call:"),
    (with_options(calls=1), "it says 0.8 ms a call: CPU and GPU take turns if each call is waited for"),
    (with_options(calls=5), "the queue runs empty: are enough calls between two readings?"),
    (with_options(first=1), "recorded in 0.75 s, it says 8 s for the first calls: too little"),
    (with_options(of_samples=mean), "held up by 60 ms now and then, it says 1.36 ms a call: that has the delays"),
    (with_options(samples=100), "raised ValueError: it makes more than 2,000 calls"),
    (compiling_included, "too much. Something of the first calls is in it"),
    (first_calls_whole, "for the first calls: too much. Later calls would have taken a part of that"),
    (lambda call, wait, clock: (8.0, float("nan")), "a time is a number"),
    (lambda call, wait, clock: 8.0, "asks for two numbers"),
    name="06.5",
)
