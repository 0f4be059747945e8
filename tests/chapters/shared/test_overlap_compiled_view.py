"""What is shown of the compiled steps: the slowest rank's, with what it sends, and only what torch compiled."""

import pytest

from chapters.shared import overlap_compiled_view as view
from chapters.shared.experiments.overlap import NOTHING_SENT
from compile_lab.recordings import Provenance, Recording


def run(case, step_ms, width=1.0, batch=8, sent=3):
    row = {"step_ms": step_ms, "low_ms": step_ms - width, "high_ms": step_ms + width, "host_ms": 4.0, "exposed_ms": 9.0}
    faster = row | {"step_ms": step_ms - 0.5, "host_ms": 1.0}
    by_rank = [faster, row | {"wire_exposed_ms": 2.0} if sent else row | {"exposed_ms": 0.0}]
    timeline = {"collectives": [{}] * sent} if sent else None
    return {"ranks": 2, "batch": batch, "case": case, "by_rank": by_rank, "timeline": timeline}


def recorded(*runs):
    here = Provenance("NVIDIA H100", "2.11.0", "3.6.0", "13.0", "2026-11-25", "python", "recorded")
    return Recording("overlap_compiled", here, {"runs": list(runs)})


def test_a_step_is_the_slowest_ranks_and_waiting_is_not_exposed():
    found = view.steps(recorded(run("FSDP, as it is", 20.0), run(NOTHING_SENT, 10.0, sent=0)), 8)
    sending, quiet = found.values()
    assert (sending.step_ms, sending.host_ms, sending.exposed_ms, sending.collectives) == (20.0, 4.0, 2.0, 3)
    assert (quiet.exposed_ms, quiet.collectives) == (0.0, 0)


def test_what_torch_did_not_compile_has_no_step():
    stopped = {"ranks": 2, "batch": 8, "case": "FSDP, scheduled", "stopped": "RuntimeError: Unexpected option"}
    assert list(view.steps(recorded(run("FSDP, as it is", 20.0), stopped), 8)) == ["FSDP, as it is"]
    with pytest.raises(ValueError, match="8 or 32"):
        view.steps(recorded(run("a", 1.0), run("a", 1.0, batch=32)), 16)


def test_times_are_told_only_where_their_quartiles_are_apart():
    cut, one = "DDP, cut at its buckets", "DDP, one graph"
    apart, alike = (run(cut, 20.0), run(one, 10.0)), (run(cut, 20.0, batch=32), run(one, 19.0, batch=32))
    assert view.cut_or_whole(recorded(*apart, *alike), [8, 32]) == (
        "with 8 sequences 20.0 ms cut, 10.0 as one graph; with 32 sequences not told apart"
    )
