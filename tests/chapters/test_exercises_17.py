"""check says what is wrong with an answer, and takes a right one. The notebook's own solutions are checked by nbval."""

import math

import pytest

from compile_lab.exercises import check


def step(work, batch, bytes_per_s, flop_per_s):
    return 1e3 * max(work.nbytes(batch) / bytes_per_s, work.flop(batch) / flop_per_s)


def requests(search_s, before_ms, after_ms):
    return math.ceil(1e3 * search_s / (before_ms - after_ms)) if after_ms < before_ms else None


def bucket(length):
    return 64 * math.ceil(length / 64)


@pytest.mark.parametrize(
    ("name", "answer", "wrong"),
    [
        ("17.1", 500, "one byte a weight"),
        ("17.1", 100, "would read 1.4 TB"),
        ("17.1", ..., "no answer yet"),
        ("17.2", lambda work, batch, b, f: 1e3 * work.nbytes(batch) / b, "too little"),
        ("17.2", lambda work, batch, b, f: step(work, 1024, b, f), "too much"),
        ("17.2", lambda work, batch, b, f: "long", "a number of milliseconds"),
        ("17.3", lambda s, before, after: 6000, "for a search of 60 s, 20 ms before and 20 after"),
        ("17.3", lambda s, before, after: requests(s, before, after) if after <= before else -1, "21 after"),
        ("17.4", lambda length: length, "more than 8"),
        ("17.4", lambda length: 512, "pads"),
        ("17.4", lambda length: 256, "does not fit into 256"),
        ("17.4", lambda length: 1024, "the cache has 512 slots"),
        ("17.4", lambda length: 1 << (length - 1).bit_length(), "lengths"),
        ("17.4", lambda length: 64.0, "a whole number"),
    ],
)
def test_a_wrong_answer_is_told_what_is_wrong_with_it(name, answer, wrong):
    outcome = check(name, answer)
    assert not outcome.passed and wrong in outcome.wrong, outcome.wrong


@pytest.mark.parametrize(("name", "answer"), [("17.1", 250), ("17.2", step), ("17.3", requests), ("17.4", bucket)])
def test_a_right_answer_passes(name, answer):
    assert check(name, answer).passed, check(name, answer).wrong
