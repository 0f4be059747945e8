"""The recording simple_fsdp drawn: bars, what is exposed, and when the claim holds."""

import pytest

from compile_lab.experiments.simple_fsdp_view import claimed, sent, slowest, steps, table


def run_of(way, step_ms, exposed_ms=2.0, collectives=3):
    row = {"step_ms": step_ms, "low_ms": step_ms - 1, "high_ms": step_ms + 1, "exposed_ms": exposed_ms}
    return {
        "way": way,
        "simple": "FSDP2" not in way,
        "by_rank": [row, row | {"step_ms": step_ms - 0.5}],
        "timeline": {"collectives": [{"nbytes": 10**9}, {"nbytes": None}][:1] * collectives},
        "peak_nbytes": None,
        "gradient_error": 1e-3,
        "compile_s": 12.0,
    }


def result(plain, buckets, peer=20.0):
    ways = {"FSDP2, compiled blocks": peer, "as it is": plain, "bucketed": 99.0, "in buckets, reordered": buckets}
    return {"runs": [run_of(way, ms) for way, ms in ways.items()]}


def test_the_claim_has_two_parts_and_each_may_fail():
    assert claimed(result(30, 19)) == (True, True)
    assert claimed(result(21, 19)) == (False, True), "quartiles meet: no difference"
    assert claimed(result(30, 25)) == (True, False)
    with pytest.raises(ValueError, match="the claim takes"):
        claimed({"runs": [run_of("as it is", 3)]})


def test_a_bar_is_as_long_as_the_slower_ranks_step_and_ends_in_what_is_exposed():
    drawn = steps(result(30, 19), "caption")
    assert "SimpleFSDP, as it is: 30.0 ms, 2.0 ms of it exposed, 3 collectives" in drawn.alt
    assert drawn.svg.count("<rect") == 8 and "FSDP2, compiled blocks" in drawn.svg
    assert slowest(run_of("as it is", 7))["step_ms"] == 7 and sent(run_of("x", 7)) == (3, 3 * 10**9)
    with pytest.raises(ValueError, match="no way was measured"):
        steps({"runs": []})
    assert "30 (29 to 31)" in repr(table(result(30, 19))) and "3 GB" in repr(table(result(30, 19)))
