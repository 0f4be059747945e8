"""One process a case: what is measured comes back, and what breaks in one process is no finding about the next."""

import math

import pytest

from chapters.inference.experiments import threads
from chapters.inference.threads import Throughput, recorded
from compile_lab.recordings import Recording, here


def test_without_time_no_process_is_begun():
    found = threads.record("cpu", budget_s=-1)
    rows = recorded(Recording("threads", here("a test"), found))
    assert {row.way for row in rows} == set(threads.WAYS) - {"CUDA graphs"}
    assert {row.error for row in rows} == {threads.OUT_OF_TIME}
    assert set(found["processes"].values()) == {0}


def test_after_a_failure_the_next_number_of_threads_gets_a_process_of_its_own(monkeypatch):
    asked = []

    def by_itself(way, device, counts):
        asked.append((way, counts))
        return [Throughput(way, counts[0], error="RuntimeError: broken")]

    monkeypatch.setattr(threads, "_by_itself", by_itself)
    found = threads.record("cpu", budget_s=math.inf)
    assert [counts for way, counts in asked if way == "eager"] == [(1, 2), (2,)]
    assert found["processes"] == dict.fromkeys(found["processes"], 2)


@pytest.mark.slow
def test_a_process_measures_until_it_ends_and_its_signal_is_told(monkeypatch):
    rows = threads._by_itself("eager", "cpu", (1, 2))
    assert [row.threads for row in rows] == [1, 2] and all(row.same for row in rows)
    (row,) = threads._by_itself("no such way", "cpu", (1,))
    assert row.error.startswith("the process ended with 1")
