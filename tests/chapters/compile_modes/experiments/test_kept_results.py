"""The recording kept_results: each way of keeping a result is tried in each mode, and whose values it reads is told."""

import torch

from chapters.compile_modes.experiments import kept_results


def test_without_cuda_graphs_a_result_stays_what_it_was():
    rows = kept_results.record("cpu")["rows"]
    assert [(row["mode"], row["kept"]) for row in rows] == [
        (mode, kept) for mode in ("default", "reduce-overhead") for kept in kept_results.WAYS
    ]
    assert {row["reads"] for row in rows} == {"its own values"}


def test_what_was_written_over_is_told(monkeypatch):
    memory = torch.empty(kept_results.WIDTH)

    def replayed(fn, mode):
        return lambda x: memory.copy_(fn(x))

    monkeypatch.setattr(torch, "compile", replayed)
    reads = {row["kept"]: row["reads"] for row in kept_results.record("cpu")["rows"]}
    assert reads == {"as it is": "the next call's", "a clone": "its own values", "through DLPack": "the next call's"}
    assert all(row["one_place"] for row in kept_results.record("cpu")["rows"])


def test_torchs_refusal_is_a_row(monkeypatch):
    def refused(result):
        raise RuntimeError("Error: accessing tensor output\nand more")

    monkeypatch.setattr(kept_results, "_whose", lambda *_: refused(_))
    assert {row["reads"] for row in kept_results.record("cpu")["rows"]} == {"Error: accessing tensor output"}
