"""The table of experiments: a module and a JSON file for each row, and one form of `record`."""

import ast
import warnings
from pathlib import Path

import pytest

from chapters import registry
from chapters.registry import EXPERIMENTS, measure
from chapters.shared.experiments import patterns
from compile_lab import recordings

FILES = sorted(Path(registry.__file__).parent.glob("*/experiments/*.py"))
ENTRIES = {
    file.stem: node
    for file in FILES
    for node in ast.parse(file.read_text(encoding="utf-8")).body
    if isinstance(node, ast.FunctionDef) and node.name == "record"
}


def test_each_row_has_a_module_and_a_recording_and_there_are_no_others():
    recorded = {name for names in recordings.names().values() for name in names}
    modules = {one.module.rpartition(".")[2] for one in EXPERIMENTS.values()}
    assert modules == set(ENTRIES) and set(EXPERIMENTS) == recorded


def test_measuring_calls_the_module_of_that_name(monkeypatch):
    monkeypatch.setattr(patterns, "record", lambda device, progress, **more: (device, list(progress([1])), more))
    assert measure("patterns", "cuda", cases=()) == ("cuda", [1], {"cases": ()})
    assert measure("patterns", "cpu", lambda steps: []) == ("cpu", [], {})


def test_what_is_no_row_and_a_device_that_no_experiment_knows_are_refused():
    with pytest.raises(KeyError, match="nothing measures 'subjects'; there is architectures, "):
        measure("subjects", "cpu")
    with pytest.raises(ValueError, match='device is \'cuda:1\': it is "cuda" or "cpu"'):
        measure("machine", "cuda:1")


def test_a_published_notebook_shows_no_progress(monkeypatch, capsys):
    monkeypatch.setenv(registry.PUBLISH, "1")
    assert list(registry.progress("steps")([1, 2])) == [1, 2]
    assert capsys.readouterr().err == ""
    monkeypatch.delenv(registry.PUBLISH)
    assert list(registry.progress("steps")([1, 2])) == [1, 2]
    assert "steps: " in capsys.readouterr().err


def test_what_torch_leaves_to_eager_mode_is_not_measured_as_compiled(monkeypatch):
    words = "a GPU does not support bfloat16 compilation natively, skipping"
    monkeypatch.setattr(patterns, "record", lambda *_: warnings.warn(words, stacklevel=1))
    with pytest.raises(UserWarning, match="bfloat16 compilation"):
        measure("patterns", "cpu")
