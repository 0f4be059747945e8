"""A start is a real process: what it finds in a folder that is full, that is empty, and after it was killed."""

import pytest

from chapters.return_on_investment.experiments import starts as experiment
from chapters.return_on_investment.restarts import LAYERS, Restart, Restarts, answers, inputs_hash, restarts
from chapters.return_on_investment.restarts_view import keys
from compile_lab.recordings import Recording, here, load

ABOVE, BELOW = LAYERS


def test_what_is_no_plain_hit_or_miss_is_said():
    both = answers({"inductor": {"fxgraph_cache_hit": 1, "fxgraph_cache_miss": 1}})
    assert Restart("x", found=both).answer(BELOW) == "both" and Restart("x").answer(ABOVE) == "not measured"
    assert keys(restarts(load("restarts")), ["caches forbidden"]).rows[0][1] == "no key was made"


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


def test_where_there_is_one_gpu_a_second_ones_key_is_known_too(monkeypatch):
    """Asked in a process of its own, whose keys are compared with one another: this one's are pytest's, too."""
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    zero, one, again = (inputs_hash(device) for device in ("cuda:0", "cuda:1", "cuda:0"))
    assert zero == again != one
