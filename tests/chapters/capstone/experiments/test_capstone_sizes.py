"""The last rungs at other sizes: tried on a CPU at two small ones, and what the model of their time says."""

import math
from dataclasses import replace

import pytest

from chapters.capstone.experiments import capstone_sizes, capstone_sizes_view
from chapters.capstone.experiments.capstone_sizes_model import BY_HAND, GRAPHS, RUNGS, Size, predicted
from chapters.experiment import OUT_OF_TIME
from compile_lab import recordings


@pytest.mark.slow
def test_each_rung_is_timed_at_each_size_beside_its_prediction(peer):
    found = capstone_sizes.record("cpu", peer=peer, budget_s=math.inf)
    rows = [capstone_sizes.SizeRow.from_json(row) for row in found["rows"]]
    sizes = capstone_sizes.SIZES["cpu"]
    assert [(row.size, row.rung) for row in rows] == [(size, rung) for size in sizes for rung in RUNGS]
    assert not any(row.stopped for row in rows)
    assert all(0 < row.low_ms <= row.median_ms <= row.high_ms and row.issued_ms > 0 for row in rows)
    assert [row.predicted for row in rows] == [predicted(size)[rung] for size in sizes for rung in RUNGS]
    for size in sizes:
        ours = [row.loss for row in rows if row.size == size and not row.rung.startswith("peer")]
        assert max(ours) - min(ours) < 0.02


def test_without_a_peer_and_without_time_each_rung_is_told_as_stopped():
    rows = capstone_sizes.record("cpu", budget_s=0.0)["rows"]
    assert {row["rung"] for row in rows} == {"together", *BY_HAND} and len(rows) == 6
    assert {row["stopped"] for row in rows} == {OUT_OF_TIME} and {row["median_ms"] for row in rows} == {None}


def test_an_interrupt_keeps_what_was_measured(monkeypatch):
    def built(self):
        if self.size == capstone_sizes.SIZES["cpu"][1]:
            raise KeyboardInterrupt
        self.rows["hand"] = {"median_ms": 2.0, "low_ms": 1.0, "high_ms": 3.0, "samples": 3, "peak_nbytes": None}
        self.rows["hand"] |= {"clock_mhz": [], "power_w": []}
        self.losses["hand"] = 6.5

    monkeypatch.setattr(capstone_sizes.SizeStudy, "build", built)
    (row,) = capstone_sizes.record("cpu", budget_s=math.inf)["rows"]
    assert (row["rung"], row["median_ms"], row["stopped"]) == ("hand", 2.0, "")


def test_where_it_is_calibrated_the_model_gives_the_recorded_steps():
    known = {name: recordings.load(name).result["rungs"] for name, _ in RUNGS.values()}
    for rung, found in predicted(Size(12, 768, 12, 32)).items():
        name, recorded = RUNGS[rung]
        row = next(row for row in known[name] if row["name"] == recorded and "median_ms" in row)
        assert found.ms == pytest.approx(row["median_ms"], rel=1e-3)


def test_time_grows_with_what_limits_it():
    one, twice = (predicted(Size(12, 768, 12, batch))["hand"].families for batch in (32, 64))
    assert twice.pop("optimizer") == one.pop("optimizer")
    assert all(twice[name] == pytest.approx(2 * ms, rel=1e-3) for name, ms in one.items())
    wide = predicted(Size(12, 1536, 24, 32))["hand"].families
    assert wide["matmuls"] == pytest.approx(4 * one["matmuls"], rel=1e-3)
    assert wide["GELU"] == pytest.approx(2 * one["GELU"], rel=1e-3)
    assert wide["head"] == pytest.approx(2 * one["head"], rel=1e-3)


def test_few_sequences_wait_for_launches_except_in_a_graph():
    found = predicted(Size(12, 768, 12, 1))
    assert found["together"].ms == found["together"].launching_ms > sum(found["together"].families.values())
    assert all(found[rung].ms == pytest.approx(sum(found[rung].families.values())) for rung in GRAPHS)
    deep = predicted(Size(24, 768, 12, 1))["together"]
    assert deep.launching_ms == pytest.approx(2 * found["together"].launching_ms, rel=1e-3)


def test_losses_of_the_same_weights_agree():
    for timed in capstone_sizes_view.measured(recordings.load("capstone_sizes")).values():
        ours = [row.loss for name, row in timed.items() if not name.startswith("peer")]
        assert max(ours) - min(ours) < 0.01


def test_sizes_at_which_no_launch_limits_have_no_paragraph_on_launches():
    recording = recordings.load("capstone_sizes")
    rows = [row for row in recording.result["rows"] if row["size"]["batch"] in (32, 64)]
    some = replace(recording, result=recording.result | {"rows": rows, "notes": []})
    assert len(capstone_sizes_view.text(some)) == 2 and "batch 64" in capstone_sizes_view.picture(some).title
