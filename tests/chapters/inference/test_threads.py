"""Threads: rates of a function that is right, and the answers of one that is not."""

import threading
import time

import pytest
import torch

from chapters.inference import threads
from chapters.inference.threads import throughput

pytestmark = pytest.mark.processes

INPUTS = [(torch.full((64,), float(place)),) for place in range(4)]


def doubled(x):
    return x * 2


def test_each_number_of_threads_has_a_rate_between_its_quartiles(monkeypatch):
    monkeypatch.setattr(threads, "ROUNDS", 2)
    rows = throughput({"doubled": doubled}, INPUTS, threads=(1, 2), round_s=0.5)  # long enough for a call of each
    assert [(row.way, row.threads) for row in rows] == [("doubled", 1), ("doubled", 2)]
    assert all(0 < row.low <= row.per_s <= row.high and row.same and not row.error for row in rows)


def test_an_answer_that_another_thread_wrote_over_is_seen(monkeypatch):
    monkeypatch.setattr(threads, "ROUNDS", 2)
    shared = torch.empty(64)

    def careless(x):
        shared.copy_(x)
        time.sleep(0.002)  # the other thread writes meanwhile
        return shared + 0

    alone, together = throughput({"careless": careless}, INPUTS, threads=(1, 2), round_s=0.5)
    assert alone.same is True
    assert together.same is False, "two threads wrote into one buffer"


def test_what_a_thread_raises_is_its_rows_error():
    main = threading.current_thread()

    def only_here(x):
        if threading.current_thread() is not main:
            raise RuntimeError("not in this thread\nmore")
        return x

    (row,) = throughput({"only here": only_here}, INPUTS, threads=(2,), round_s=0.01)
    assert row.error == "RuntimeError: not in this thread" and row.per_s is None


def test_a_thread_that_does_not_end_is_left_behind(monkeypatch):
    monkeypatch.setattr(threads, "PATIENCE_S", 0.3)
    main, never = threading.current_thread(), threading.Event()

    def stuck(x):
        if threading.current_thread() is not main:
            never.wait()
        return x

    (row,) = throughput({"stuck": stuck}, INPUTS, threads=(2,), round_s=0.01)
    never.set()
    assert row.error


@pytest.mark.parametrize(
    "settings, said",
    [({"threads": (0,)}, "1 or more"), ({"threads": (5,)}, "4 inputs for 5 threads"), ({"round_s": 0}, "above 0")],
)
def test_what_cannot_be_measured_is_refused(settings, said):
    with pytest.raises(ValueError, match=said):
        throughput({"doubled": doubled}, INPUTS, **settings)
