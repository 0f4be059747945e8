"""The preflight line: on a CPU here, and as it would be on a GPU."""

import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from compile_lab import preflight as module
from compile_lab.preflight import Machine, preflight

LAPTOP = Machine(
    device="CPU",
    kind="cpu",
    capability=None,
    bf16=True,
    torch="2.13.0+cpu",
    triton="3.7.1",
    cuda=None,
    python="3.11",
    compiler="g++ 12.2",
    memory_nbytes=24_000_000_000,
    cores=2,
)


def test_this_machine_is_described_and_not_identified():
    line = repr(preflight())
    assert f"torch {torch.__version__}" in line
    assert "\n" not in line
    for private in (socket.gethostname(), str(Path.home()), sys.prefix):
        assert private not in line or len(private) < 3


@pytest.mark.processes
def test_what_torch_does_not_do_on_a_gpu_is_what_its_own_checks_say():
    from compile_lab.virtual_gpu import run

    told = {chip: " ".join(run(chip, module._limits)) for chip in ("T4", "A100")}
    assert "bf16 to eager mode" in told["T4"] and "max-autotune does not search" in told["T4"]
    assert "bf16" not in told["A100"] and "max-autotune" not in told["A100"]
    shown = repr(replace(LAPTOP, kind="cuda", capability=(7, 5), limits=("no bf16 here",), missing=("no plotly",)))
    assert shown.endswith("Python 3.11 · no bf16 here · no plotly") and preflight().limits == ()


def test_the_module_itself_needs_no_torch():
    code = "import sys; sys.modules['torch'] = None; import compile_lab.preflight"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.parametrize("version", ["2.9.1+cu128", "1.13.0"])
def test_an_old_torch_is_refused_with_the_way_out(monkeypatch, version):
    monkeypatch.setattr(torch, "__version__", version)
    with pytest.raises(RuntimeError, match=r"too old for this book: it needs 2\.10 .* pip install --upgrade torch"):
        preflight()


def test_the_tested_torch_is_the_pinned_one():
    pins = (Path(__file__).resolve().parents[1] / "requirements.txt").read_text()
    assert f"\ntorch=={module.TESTED_TORCH}." in pins


def test_what_is_missing_says_what_it_costs_and_how_to_get_it(monkeypatch):
    monkeypatch.setattr(module.shutil, "which", lambda command: None)
    monkeypatch.setattr(module.importlib.util, "find_spec", lambda name: None)
    line = repr(preflight())
    assert "no C++ compiler, so torch.compile cannot build kernels for this CPU: " in line
    assert "no plotly, so figures cannot be drawn: pip install plotly" in line
    assert "no ipywidgets, so explorers have no controls: pip install ipywidgets" in line


def test_a_cache_folder_that_cannot_be_written_is_told_before_anything_is_compiled(monkeypatch, tmp_path):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "new"))
    assert "folder of compiled code" not in repr(preflight())
    assert list((tmp_path / "new").iterdir()) == []
    (tmp_path / "file").touch()
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "file" / "below"))
    line = repr(preflight())
    assert "compiled code cannot be written (Not a directory), so torch.compile fails: make room, or set" in line
    assert str(tmp_path) not in line
