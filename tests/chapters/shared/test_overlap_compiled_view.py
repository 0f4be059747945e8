"""What is shown of the compiled steps: only what torch compiled, and times that are apart. Chapters show the rest."""

import pytest

from chapters.shared import overlap_compiled_view as view
from compile_lab.recordings import Provenance, Recording, load


def run(case, step_ms):
    row = {"step_ms": step_ms, "low_ms": step_ms - 1, "high_ms": step_ms + 1, "host_ms": 4.0, "exposed_ms": 9.0}
    return {"ranks": 2, "batch": 8, "case": case, "by_rank": [row], "timeline": None}


def recorded(*runs):
    here = Provenance("NVIDIA H100", "2.11.0", "3.6.0", "13.0", "2026-11-25", "python", "recorded")
    return Recording("overlap_compiled", here, {"runs": list(runs)})


def test_what_torch_did_not_compile_has_no_step():
    stopped = {"ranks": 2, "batch": 8, "case": "FSDP, scheduled", "stopped": "RuntimeError: Unexpected option"}
    assert list(view.steps(recorded(run("FSDP, as it is", 20.0), stopped), 8)) == ["FSDP, as it is"]
    with pytest.raises(ValueError, match="8 or 32"):
        view.steps(load("overlap_compiled"), 16)


def test_times_are_told_only_where_their_quartiles_are_apart():
    alike = recorded(run("DDP, cut at its buckets", 20.0), run("DDP, one graph", 19.0))
    assert view.cut_or_whole(alike, [8]) == "with 8 sequences not told apart"
