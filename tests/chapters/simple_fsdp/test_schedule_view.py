"""Bars of who schedules a step, and of an order on paper: titles and parts against numbers worked out by hand."""

import pytest

from chapters.shared.overlap_compiled_view import RankStep
from chapters.simple_fsdp.schedule_view import COMPUTES, WAITS, on_paper, who_schedules
from compile_lab.devices.step_collectives import GraphCollective, GraphOrder, StepCollectives


def step(ms):
    return RankStep(ms, ms - 1, ms + 1, ms / 2, 1.0, 4)


def ordered(text):
    tokens = tuple(text.split())
    numbers = range(sum(token[0] == "w" for token in tokens))
    starts, waits = ([tokens.index(f"{kind}{at}") for at in numbers] for kind in ("AG", "w"))
    found = (
        GraphCollective("all_gather", 1000, "float32", start, wait, tokens[start:wait].count("MM"))
        for start, wait in zip(starts, waits, strict=True)
    )
    return StepCollectives((GraphOrder(tokens, tuple(found), 0),))


def test_the_title_compares_the_compiler_with_hooks_and_leaves_out_who_gathers_nothing():
    cases = {"FSDP2, eager": step(112), "FSDP2, compiled": step(88), "SimpleFSDP, 25 MB": step(76), "DDP": step(70)}
    drawn = who_schedules(cases)
    assert drawn.alt.startswith("Scheduled by the compiler, a sharded step takes 76 ms; by hooks, 88 to 112.")
    assert "DDP: no weight is gathered 70" in drawn.alt
    with pytest.raises(ValueError, match="scheduled by the compiler"):
        who_schedules({"FSDP2, eager": step(112), "DDP": step(70)})


def test_on_paper_an_order_waits_for_what_no_matmul_hides():
    steps = {"as it is": ordered("AG0 w0 MM AG1 w1 MM"), "moved": ordered("AG0 AG1 w0 MM w1 MM")}
    table = on_paper(steps, 2, matmul_ms=3, bytes_per_ms=1000, start_ms=0).table  # a gather takes 2 ms: 10 ms, then 8
    assert table.columns[1:3] == [COMPUTES, WAITS]
    shares = {row[0]: [float(cell) for cell in row[1:3]] for row in table.rows}
    assert shares == {"as it is": [60, 40], "moved": [60, 20]}
    with pytest.raises(ValueError, match="no order"):
        on_paper({}, 1, 1.0, 1.0, 0.0)
    with pytest.raises(ValueError, match="carries more than 0"):
        on_paper(steps, 1, 1.0, 0.0, 0.0)
