"""The second recording of checkpoints: the same measurement, of the compiled strategies."""

from chapters.activation_checkpointing.experiments import checkpointing, checkpointing_compiled


def test_it_measures_the_compiled_strategies(monkeypatch):
    monkeypatch.setattr(checkpointing, "record", lambda device, progress, **more: (device, list(progress([1])), more))
    asked = {"strategies": checkpointing.COMPILED_STRATEGIES}
    assert checkpointing_compiled.record("cuda") == ("cuda", [1], asked)
