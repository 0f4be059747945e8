"""The further recordings of the patterns: the same measurement, of other cases."""

from chapters.four_patterns.experiments import patterns_compiled, patterns_wide
from chapters.shared.experiments import patterns


def test_they_measure_the_patterns_with_other_arguments(monkeypatch):
    monkeypatch.setattr(patterns, "record", lambda device, progress, **more: (device, list(progress([1])), more))
    assert patterns_wide.record("cuda") == ("cuda", [1], {"cases": patterns.WIDE})
    assert patterns_compiled.record("cuda") == ("cuda", [1], {"mode": "default", "cases": patterns.COMPILED})
