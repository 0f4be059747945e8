"""Threads: functions that give wrong answers, raise, or do not end. Chapter 21 has one that is right."""

import threading
import time

import pytest
import torch

from chapters.inference import threads
from chapters.inference.threads import throughput

pytestmark = pytest.mark.processes

INPUTS = [(torch.full((64,), float(place)),) for place in range(4)]


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
