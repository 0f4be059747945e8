"""A start is a real process: what it finds in a folder that is full, that is empty, and after it was killed."""

import pytest

from chapters.return_on_investment.experiments import starts as experiment
from chapters.return_on_investment.restarts import LAYERS, Restart, Restarts, answers, inputs_hash
from chapters.return_on_investment.restarts_view import keys
from compile_lab.recordings import Recording, here

COUNTERS = {"inductor": {"fxgraph_cache_miss": 2, "other": 7}, "aot_autograd": {"autograd_cache_hit": 1, "total": 1}}
ABOVE, BELOW = LAYERS


def made(name, seconds, counters=COUNTERS, **rest):
    return Restart(name, seconds, seconds, 1.0, answers(counters), **rest)


def several():
    found = [made("cold", 20.0, {}), made("the same folder", 2.0), Restart("late", stopped="TimeoutExpired: 9 s")]
    return Restarts("a step", {one.name: one for one in found}, here("a test"))


def test_torchs_counters_are_told_by_layer():
    one = made("x", 1.0)
    assert one.answer(ABOVE) == "hit" and one.answer(BELOW) == "miss"
    assert made("x", 1.0, {}).answer(ABOVE) == "not queried" and Restart("x").answer(ABOVE) == "not measured"
    assert made("x", 1.0, {"i": {"fxgraph_cache_hit": 1, "fxgraph_cache_miss": 1}}).answer(BELOW) == "both"


def test_a_share_is_that_of_the_cold_start():
    assert several().share("the same folder") == pytest.approx(0.1) and several().share("late") is None


def test_a_table_says_which_part_of_the_key_was_another():
    cold = made("cold", 20.0, {}, key_parts={"gm": "a", "example_inputs[0]": "b", "example_inputs[1]": "c"}, built=7)
    larger = made("larger", 9.0, key_parts={"gm": "a", "example_inputs[0]": "x", "example_inputs[1]": "y"}, built=2)
    found = Restarts("a step", {one.name: one for one in (cold, larger, made("off", 1.0))}, here("a test"))
    rows = keys(found, ["larger", "cold", "off"]).rows
    assert rows[0] == ("larger", "2 of example_inputs", "hit", "miss", 2)
    assert [row[1] for row in rows[1:]] == ["none", "no key was made"]


@pytest.mark.slow
def test_a_restart_finds_what_is_left_also_after_a_kill(monkeypatch):
    tiny = {"layers": 1, "dim": 16, "heads": 2, "context": 8, "vocabulary": 16, "batch": 2}
    monkeypatch.setattr(experiment, "MINI", tiny)
    again = "killed while it trained, again"
    names = ("artifacts, empty folder", "the same folder", again, "another constant", "another option")
    result = experiment.measured("cpu", names=names)
    found = {one["name"]: Restart.from_json(one) for one in result["starts"]}
    assert [one.stopped for one in found.values()] == [""] * 6
    assert {one.answer(ABOVE) for one in found.values()} == {"hit", "miss"}
    assert found["cold"].answer(ABOVE) == found["another constant"].answer(ABOVE) == "miss"
    cold = found["cold"]
    assert found[again].first_step > 1 and len(cold.losses) == experiment.STEPS
    assert found[again].losses == cold.losses[found[again].first_step - 1 :], "as if nothing had happened"
    assert cold.built > 0 == found["the same folder"].built == found[again].built
    several = Restarts("", found, None)
    assert not several.differing("the same folder")
    assert "gm" in several.differing("another constant") and "inductor_config" in several.differing("another option")
    for name in ("the same folder", again):
        assert found[name].answer(ABOVE) == "hit" and found[name].cpu_s < 0.5 * found["cold"].cpu_s
    loaded = found["artifacts, empty folder"]
    assert loaded.answer(ABOVE) == loaded.answer(BELOW) == "hit"
    assert loaded.artifacts_nbytes == found["cold"].artifacts_nbytes > 10_000
    assert loaded.built == cold.built, "on a CPU an artifact holds no machine code"
    assert Recording("restarts", here("a test"), result).result["what"] == "1 layers of width 16, a training step"


def test_the_devices_index_is_in_the_key():
    zero, one, again = (inputs_hash(device) for device in ("cuda:0", "cuda:1", "cuda:0"))
    assert zero == again != one


def test_where_there_is_one_gpu_a_second_ones_key_is_known_too(monkeypatch):
    """Asked in a process of its own, whose keys are compared with one another: this one's are pytest's, too."""
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    zero, one, again = (inputs_hash(device) for device in ("cuda:0", "cuda:1", "cuda:0"))
    assert zero == again != one
