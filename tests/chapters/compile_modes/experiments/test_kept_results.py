"""The recording kept_results: each way of keeping a result is tried in each mode, and whose values it reads is told."""

from unittest.mock import Mock

import pytest
import torch

from chapters.compile_modes.experiments import kept_results


@pytest.fixture
def compiled_as(monkeypatch):
    """``torch.compile`` gives what is said instead: nothing here is about Inductor, which would take half a minute."""
    return lambda made: monkeypatch.setattr(torch, "compile", made)


def test_without_cuda_graphs_a_result_stays_what_it_was(compiled_as):
    compiled_as(lambda fn, mode: fn)
    rows = kept_results.record("cpu")["rows"]
    assert [(row["mode"], row["kept"]) for row in rows] == [
        (mode, kept) for mode in ("default", "reduce-overhead") for kept in kept_results.WAYS
    ]
    assert {row["reads"] for row in rows} == {"its own values"}


def test_what_was_written_over_is_told(compiled_as):
    memory = torch.empty(kept_results.WIDTH)
    compiled_as(lambda fn, mode: lambda x: memory.copy_(fn(x)))
    rows = kept_results.record("cpu")["rows"]
    reads = {row["kept"]: row["reads"] for row in rows}
    assert reads == {"as it is": "the next call's", "a clone": "its own values", "through DLPack": "the next call's"}
    assert all(row["one_place"] for row in rows)


def test_torchs_refusal_is_a_row(compiled_as, monkeypatch):
    compiled_as(lambda fn, mode: fn)
    refused = Mock(side_effect=RuntimeError("Error: accessing tensor output\nand more"))
    monkeypatch.setattr(kept_results, "_whose", refused)
    assert {row["reads"] for row in kept_results.record("cpu")["rows"]} == {"Error: accessing tensor output"}
