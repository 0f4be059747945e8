"""The recording of FlexAttention: every way at every length, its error, and what fails or is not begun is told."""

import json
import math

import pytest

from chapters.attention_and_passes.experiments import flex
from chapters.experiment import OUT_OF_TIME


def test_without_time_every_part_says_that_it_was_not_begun():
    kept = flex.record("cpu", list, budget_s=0)
    assert kept["rows"] == kept["masks"] == []
    assert {one["stopped"] for one in kept["stopped"]} == {OUT_OF_TIME}
    assert {one["length"] for one in kept["stopped"]} == set(flex.LENGTHS["cpu"])


@pytest.fixture
def short(monkeypatch):
    monkeypatch.setitem(flex.LENGTHS, "cpu", (256,))
    monkeypatch.setattr(flex, "ROUNDS", 2)


def uncompiled(fn, **_):
    return fn


def test_every_way_is_timed_and_judged_and_a_missing_backward_is_told(short, monkeypatch):
    monkeypatch.setattr(flex.torch, "compile", uncompiled)
    kept = flex.record("cpu", list, budget_s=math.inf)
    rows = {(row["part"], row["way"]): row for row in kept["rows"]}
    dense, flexed = ["scores in full", "mask in a tensor", "is_causal"], ["causal", "window", "documents"]
    assert set(rows) == {
        *(("made", f"mask, {name}") for name in [*flexed, "causal, compiled"]),
        *((part, way) for part in ("forward", "step") for way in dense),
        *(("forward", f"flex, {name}") for name in flexed),
    }
    for (part, _), row in rows.items():
        assert 0 < row["low_ms"] <= row["median_ms"] <= row["high_ms"]
        assert row["error"] is None if part == "made" else 0 < row["error"] < 2e-6
    assert rows["forward", "scores in full"]["peak_nbytes"] > 2 * 4 * 256**2
    assert {one["way"] for one in kept["stopped"]} == {f"flex, {name}" for name in flexed}
    assert all("does not support backward on CPU" in one["stopped"] for one in kept["stopped"])
    visited = {each["mask"]: each["visited"] for each in kept["masks"]}
    assert visited["causal"] == 3 and all(each["blocks"] == 4 for each in kept["masks"])
    json.dumps(kept, allow_nan=False)


def test_a_compiler_that_fails_leaves_the_others_measured(short, monkeypatch):
    def broken(fn, **_):
        def failing(*_, **__):
            raise RuntimeError("no compiler here\nand more")

        return failing

    monkeypatch.setattr(flex.torch, "compile", broken)
    kept = flex.record("cpu", list, budget_s=math.inf)
    assert {row["way"] for row in kept["rows"]} >= {"scores in full", "mask in a tensor", "is_causal"}
    assert {one["stopped"] for one in kept["stopped"]} == {"RuntimeError: no compiler here"}
    assert len(kept["stopped"]) == 7  # three masks in two parts, and the compiled making of one


def test_a_wrong_result_has_its_error(short, monkeypatch):
    monkeypatch.setattr(flex.torch, "compile", uncompiled)
    monkeypatch.setattr(flex, "attend", lambda q, k, v, score, mask: v)
    kept = flex.record("cpu", list, budget_s=math.inf)
    assert all((row["error"] > 0.1) == row["way"].startswith("flex") for row in kept["rows"] if row["error"])
    assert any(row["way"].startswith("flex") for row in kept["rows"])
