"""The record command, and a result by name: live with a GPU, recorded without, and never one called the other."""

import json
import subprocess
import sys
from types import SimpleNamespace

import pytest

from chapters import record
from chapters.experiment import reason
from chapters.record import main, result
from chapters.registry import EXPERIMENTS, Experiment
from compile_lab import recordings
from compile_lab.page.explore import PUBLISH


@pytest.fixture
def toy(monkeypatch):
    """Two experiments that take no time; `calls` says which ran, and on what."""
    calls = []

    def recorder(name):
        def run(device, progress):
            calls.append((name, device))
            return {"steps": list(progress([1, 2]))}

        return run

    for name in ("first", "second"):
        add(monkeypatch, name, recorder(name))
    record._measured_once.cache_clear()
    yield calls
    record._measured_once.cache_clear()


def add(monkeypatch, name, run, on_cpu=False):
    monkeypatch.setitem(EXPERIMENTS, name, Experiment(f"the {name} thing", 3, on_cpu, module=f"tests.{name}"))
    monkeypatch.setitem(sys.modules, f"tests.{name}", SimpleNamespace(record=run))


@pytest.fixture
def gpu(monkeypatch):
    """A GPU, as far as the command can tell."""
    monkeypatch.setattr(record, "_has_gpu", lambda: True)


@pytest.fixture
def no_gpu(monkeypatch):
    monkeypatch.setattr(record, "_has_gpu", lambda: False)


@pytest.mark.parametrize(
    ("arguments", "out", "has_gpu", "status", "told"),
    [
        (["first", "frist"], "{}", True, 2, "nothing measures 'frist'; there is "),
        (["first"], "{}", False, 1, "torch finds none here"),
        (["first", "--allow-cpu"], None, False, 2, "--allow-cpu needs --out"),  # never among the book's GPUs
        (["first", "--allow-cpu"], "{}/file", False, 1, "not recorded: "),
    ],
)
def test_what_cannot_be_recorded_is_told_before_anything_is_measured(
    toy, tmp_path, monkeypatch, capsys, arguments, out, has_gpu, status, told
):
    monkeypatch.setattr(record, "_has_gpu", lambda: has_gpu)
    (tmp_path / "file").write_text("")
    try:
        ended = main([*arguments, *(["--out", out.format(tmp_path)] if out else [])])
    except SystemExit as stopped:
        ended = stopped.code
    assert ended == status and told in capsys.readouterr().err
    assert toy == [] and [each.name for each in tmp_path.iterdir()] == ["file"]


def test_what_it_writes_can_be_loaded(toy, no_gpu, tmp_path, monkeypatch, capsys):
    monkeypatch.delenv(PUBLISH, raising=False)  # a published notebook shows no progress
    assert main(["first", "second", "--allow-cpu", "--out", str(tmp_path)]) == 0
    assert toy == [("first", "cpu"), ("second", "cpu")]
    loaded = recordings.load("second", root=tmp_path)
    assert loaded.result == {"steps": [1, 2]}
    assert loaded.provenance.command == "python -m chapters.record second"
    streams = capsys.readouterr()
    assert "second.json: recorded on " in streams.out
    assert "second: " in streams.err and "| 0/2 [" in streams.err, "progress goes to stderr"


def test_an_interrupt_keeps_what_was_finished_and_writes_nothing_half(toy, tmp_path, monkeypatch, capsys):
    def interrupted(device, progress):
        raise KeyboardInterrupt

    add(monkeypatch, "second", interrupted)
    assert main(["first", "second", "--allow-cpu", "--out", str(tmp_path)]) == 130
    assert "interrupted" in capsys.readouterr().err
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["first.json"]


def test_with_a_gpu_a_result_is_measured_live_and_once(toy, gpu):
    one = result("first")
    assert one.provenance.kind == "live" and str(one.provenance).startswith("measured live on ")
    assert result("first") is one and toy == [("first", "cuda")]


def test_without_a_gpu_the_recording_is_shown_and_says_so_and_what_is_of_the_cpu_always(monkeypatch):
    monkeypatch.setattr(record, "_has_gpu", lambda: False)
    one = result("machine")
    assert one.provenance.kind == "recorded" and str(one.provenance).startswith("recorded on NVIDIA H200")
    monkeypatch.setattr(record, "_has_gpu", lambda: True)
    assert result("dtensor").provenance.kind == "recorded"


def test_where_torch_compiles_no_bf16_what_would_be_eager_is_shown_as_recorded_and_not_recorded(
    gpu, monkeypatch, tmp_path, capsys
):
    monkeypatch.setattr("torch.cuda.is_bf16_supported", lambda including_emulation: False)
    assert EXPERIMENTS["softmax"].in_bf16 and result("softmax").provenance.kind == "recorded"
    assert main(["machine", "softmax", "--out", str(tmp_path)]) == 1
    assert "softmax: torch compiles no bf16 for this GPU" in capsys.readouterr().err
    assert not list(tmp_path.iterdir()), "nothing is measured before it is refused"


@pytest.mark.slow
def test_the_command_runs_as_it_is_written_in_the_readme(tmp_path):
    command = [sys.executable, "-m", "chapters.record", "machine", "--allow-cpu", "--out", str(tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert run.returncode == 0, run.stderr
    (path,) = tmp_path.rglob("*.json")
    content = json.loads(path.read_text())
    assert {"copy", "matmul"} <= set(content["result"])
    assert content["provenance"]["command"] == "python -m chapters.record machine"


def test_a_reason_names_the_compilers_first_error():
    output = "a.cpp:1:2: error: 'f' was not declared\nerror: more"
    said = f"CppCompileError: C++ compile error\n\nCommand:\ng++ a.cpp\n\nOutput:\n{output}"
    assert reason(RuntimeError(said)) == "RuntimeError: CppCompileError: C++ compile error: 'f' was not declared"
    assert reason(ValueError("\n no room\nerror: later")) == "ValueError: no room"
    assert reason(KeyError()) == "KeyError: no message"
