"""The ladder, tried on a CPU at a small size; what its recording does not say is refused."""

import math
from collections import Counter
from dataclasses import replace
from importlib.util import find_spec

import pytest
import torch

from chapters import record
from chapters.capstone.experiments import capstone, capstone_peers
from chapters.shared import capstone_limits, capstone_view
from compile_lab import recordings


@pytest.mark.slow
def test_every_rung_and_the_peer_are_timed_judged_and_trained(peer):
    found = capstone.record("cpu", peer=peer, budget_s=math.inf)
    assert not found["stopped"]
    rows = {row["name"]: row for row in found["rungs"]}
    assert set(rows) == {"first", "tf32", "bf16", "fused", "compile", "padded", "head", "flat", "stream"} | {
        "hand", "fp8", "fp8 + qkv", "all fp8", "tuned", "fp8, short sums", "fp8 + head", "peer", "peer, compiled"
    }  # fmt: skip
    assert all(0 < row["low_ms"] <= row["median_ms"] <= row["high_ms"] for row in rows.values())
    assert 0.02 < rows.pop("fp8 + qkv")["gradient_error"] < 0.2
    errors = [rows.pop(name)["gradient_error"] for name in ("fp8", "all fp8", "fp8 + head")]
    assert 0.02 < errors[0] < errors[1] < errors[2] < 0.2
    assert rows.pop("fp8, short sums")["gradient_error"] == errors[1], "on a CPU no sum is short"
    assert all(row["gradient_error"] < 0.02 for row in rows.values())
    assert rows["bf16"]["gradient_error"] > 1e-4 > rows["first"]["gradient_error"]
    losses = {(curve["name"], curve["seed"]): curve["losses"] for curve in found["curves"]}
    assert len({tuple(losses["fused", seed]) for seed in capstone.SEEDS}) == 3
    assert losses["hand", 0] == pytest.approx(losses["fused", 0], abs=5e-3)


@pytest.mark.slow
def test_peers_that_this_machine_lacks_are_told_and_the_others_measured(peer):
    found = capstone_peers.record("cpu", peer=peer, budget_s=math.inf)
    rows = {row["name"]: row for row in found["rungs"]}
    told = {row["name"]: row["stopped"] for row in found["stopped"]}
    lacking = {"peer, FlashAttention-3"}
    lacking |= set() if find_spec("torchao") else {"peer, float8", "peer, float8 by rows"}
    lacking |= set() if find_spec("liger_kernel") else {"peer, Liger"}
    assert set(told) == lacking and all("Error" in why for why in told.values())
    assert {*capstone_peers.OWN, "peer", "peer, compiled", "peer, max-autotune"} <= set(rows)
    measured = {name: row for name, row in rows.items() if name not in told}
    assert all(0 < row["low_ms"] <= row["median_ms"] <= row["high_ms"] for row in measured.values())
    first = {name: row["losses"][0] for name, row in measured.items()}
    assert first["peer, max-autotune"] == pytest.approx(first["peer"], abs=1e-2)
    assert first["hand"] == pytest.approx(first["padded"], abs=1e-2)
    assert rows["peer"]["gradient_error"] < 0.02 < rows["all fp8"]["gradient_error"] < 0.2


def test_what_takes_minutes_is_not_begun_when_the_time_is_over(tmp_path):
    study = capstone_peers.PeersStudy("cpu", 0.0, tmp_path / "model.py")
    study.tune()
    assert study.attempts.stopped[0]["stopped"].startswith("not begun") and not study.steps


def test_a_rung_that_fails_while_it_is_timed_is_told_once():
    study = capstone.LadderStudy("cpu", 1e12, None)
    calls = Counter()

    class Step:
        def __init__(self, name, fails_at=math.inf):
            self.name, self.fails_at = name, fails_at

        def step(self, tokens, targets):
            calls[self.name] += 1
            if calls[self.name] > self.fails_at:
                raise RuntimeError("no room")
            return torch.zeros(())

    study.steps = {"first": Step("first"), "grows": Step("grows", 2 * capstone.LEAST)}
    study.rows = {name: {} for name in study.steps}
    study.time()
    assert study.attempts.stopped == [{"name": "grows", "part": "time", "stopped": "RuntimeError: no room"}]
    samples = {name: row["samples"] for name, row in study.rows.items()}
    assert samples == {"first": capstone.ROUNDS * capstone.LEAST, "grows": 2 * capstone.LEAST}


def test_all_steps_by_hand_share_their_graphs_memory(monkeypatch):
    study = capstone.LadderStudy("cpu", 1e12, None)
    study.memory, given = {"memory": "shared"}, {}
    monkeypatch.setattr(study, "_built", lambda name, about, make: make())
    rungs = {
        name: replace(rung, made=lambda *sizes, name=name, **more: given.update({name: more}))
        for name, rung in capstone.subjects.capstone_rungs().items()
    }
    monkeypatch.setattr(capstone.subjects, "capstone_rungs", lambda: rungs)
    study.build()
    assert {name for name, more in given.items() if more} == {name for name in rungs if rungs[name].by == "hand"}


def test_the_peers_file_is_asked_for_by_name(tmp_path, capsys):
    with pytest.raises(SystemExit):
        record.main(["machine", "--peer", str(tmp_path)])
    with pytest.raises(SystemExit):
        record.main(["capstone", "--peer", str(tmp_path / "none.py")])
    said = capsys.readouterr().err
    assert f"--peer is of {', '.join(record.WITH_A_PEER)} alone" in said and "no such file" in said


ONE_SEED = {"curves": [{"name": "fused", "seed": 0, "losses": [3.0] * 30}]}
SILENT = {"rungs": [{"name": "hand", "clock_mhz": [], "power_w": []}]}


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda of: capstone_view.times_faster(of, "fp8 + qkv", "all fp8"), "not told apart"),
        (lambda of: capstone_view.where(of, ["steam"]), "'steam'"),
        (lambda of: capstone_view.curves(ONE_SEED, "fused"), "two seeds"),
        (lambda of: capstone_view.clocks(SILENT), "no clock"),
    ],
)
def test_what_the_recording_does_not_say_is_refused(call, word):
    with pytest.raises(ValueError, match=word):
        call(recordings.load("capstone").result)


def test_zipfs_tokens_are_those_of_the_small_vocabulary():
    tokens, targets = capstone._batch(2, 16, "cpu")
    assert tokens.shape == (2, 16) and torch.equal(tokens[:, 1:], targets[:, :-1]) and int(tokens.max()) < 600


def test_no_family_is_below_its_limit_and_their_sum_is_most_of_the_step_by_hand():
    result = recordings.load("capstone").result
    hand = capstone_view.rungs(result)["hand"]
    least, spent = capstone_limits.limits(result, hand["vocabulary"]), capstone_view.families(hand)
    for family, ms in least.items():
        assert spent[family] > 0.9 * ms, f"{family}: what takes less than its limit has a wrong limit"
    assert 0.75 < sum(least.values()) / hand["median_ms"] < 1


def test_parameters_are_those_of_the_model():
    from mini_model.model import GPT2_124M, MiniGPT

    with torch.device("meta"):
        model = MiniGPT(GPT2_124M)
    sizes = {"layers": 12, "dim": 768, "length": 1024}
    assert capstone_limits.parameters(sizes, 50257) == sum(each.numel() for each in model.parameters())
