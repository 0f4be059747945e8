"""The preflight line: on a CPU here, and as it would be on a GPU."""

import os
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

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
ASKED = subprocess.CompletedProcess


def test_a_machine_prints_as_one_line():
    assert repr(LAPTOP) == "CPU, 2 cores, 24 GB · torch 2.13.0+cpu · triton 3.7.1 · g++ 12.2 · Python 3.11"
    gpu = replace(LAPTOP, device="Tesla T4", kind="cuda", capability=(7, 5), bf16=False, cuda="12.8")
    assert repr(gpu).startswith("Tesla T4, 24 GB, compute capability 7.5, no bf16 · torch 2.13.0+cpu · CUDA 12.8 · ")
    assert "1 core," in repr(replace(LAPTOP, cores=1))
    assert repr(replace(LAPTOP, memory_nbytes=None, triton=None)).startswith("CPU, 2 cores · torch 2.13.0+cpu · g++")


def test_slow_guards_are_told_once_and_not_in_an_output(monkeypatch):
    monkeypatch.setenv("PYTHONWARNINGS", "ignore:another")
    assert "guards slowly" not in " ".join(module._missing("g++")) and "Guards" not in os.environ["PYTHONWARNINGS"]
    monkeypatch.setattr(sys, "version_info", (3, 13, 0, "final", 0))
    for _ in range(2):
        assert "guards slowly" in " ".join(module._missing("g++"))
    warn = f"import warnings; warnings.warn({module.SLOW_GUARDS + '. Consider 3.13.1+.'!r}, RuntimeWarning)"
    run = subprocess.run([sys.executable, "-c", warn], capture_output=True, text=True)
    assert run.stderr == "" and os.environ["PYTHONWARNINGS"].count("ignore") == 2


def test_a_python_that_keeps_no_byte_code_is_told(monkeypatch, tmp_path):
    assert "byte code" not in " ".join(module._missing("g++"))
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path))
    assert "PYTHONDONTWRITEBYTECODE" in " ".join(module._missing("g++"))


def test_the_line_in_a_notebook_is_escaped():
    page = replace(LAPTOP, missing=("a <b>",))._repr_html_()
    assert page.startswith('<p class="lab-machine">CPU') and "a &lt;b&gt;" in page


def test_this_machine_is_described_and_not_identified():
    line = repr(preflight())
    assert f"torch {torch.__version__}" in line
    assert "\n" not in line
    for private in (socket.gethostname(), str(Path.home()), sys.prefix):
        assert private not in line or len(private) < 3


def test_without_torch_the_error_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ModuleNotFoundError, match="pip install torch"):
        preflight()


def test_a_known_fault_of_this_torch_is_told_on_a_gpu_with_its_switch(monkeypatch):
    from compile_lab._torch.inductor import inductor_config

    with inductor_config.patch({"triton.mix_order_reduction": True}):
        (told,) = module._faults("2.13.0+cu130", "cuda")
        assert told == (
            "torch 2.13 leaves gradients unwritten where two layer norms share one parameter on a GPU "
            "(pytorch#193061): set TORCHINDUCTOR_MIX_ORDER_REDUCTION=0 before torch is imported"
        )
        gpu = replace(LAPTOP, kind="cuda", capability=(9, 0), faults=(told,))
        assert f"Python 3.11 · {told}" in repr(gpu)
        assert module._faults("2.13.0+cpu", "cpu") == module._faults("2.15.0", "cuda") == ()
        assert "193061" not in repr(preflight()) or preflight().kind == "cuda"
    with inductor_config.patch({"triton.mix_order_reduction": False}):
        assert module._faults("2.13.0", "cuda") == ()


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


@pytest.mark.parametrize("version", ["2.10.0", "2.14.0a0+git1234", "3.0.0"])
def test_a_new_torch_is_taken(monkeypatch, version):
    monkeypatch.setattr(torch, "__version__", version)
    assert preflight().torch == version


@pytest.mark.parametrize(
    ("version", "newer"), [("2.14.0a0+git1", True), ("3.0.0", True), ("2.13.1", False), ("2.11.0", False)]
)
def test_a_torch_that_is_newer_than_the_stored_outputs_is_told(version, newer):
    line = repr(replace(LAPTOP, torch=version))
    assert ("Python 3.11 · torch is newer than the 2.13 of the stored outputs" in line) is newer
    assert line.startswith(f"CPU, 2 cores, 24 GB · torch {version} · triton 3.7.1 · ") and "\n" not in line


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


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ("g++ (Debian 12.2.0-14) 12.2.0\nCopyright", "g++ 12.2"),
        ("Apple clang version 17.0.0 (clang-1700.0.13.5)", "clang++ 17.0"),
        ("no version here", "g++"),
    ],
)
def test_the_compiler_is_named_by_what_it_says_of_itself(monkeypatch, told, expected):
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(module.shutil, "which", lambda command: f"/usr/bin/{command}")
    monkeypatch.setattr(module.subprocess, "run", lambda *a, **k: ASKED(a, 0, told, ""))
    assert module._compiler() == expected


def test_the_environments_compiler_is_named_without_its_path(monkeypatch):
    monkeypatch.setenv("CXX", "/home/somebody/bin/g++-14")
    monkeypatch.setattr(module.shutil, "which", lambda command: command)
    monkeypatch.setattr(module.subprocess, "run", lambda *a, **k: ASKED(a, 0, "g++-14 (GCC) 14.1.0", ""))
    assert module._compiler() == "g++-14 14.1"


def test_a_compiler_that_only_asks_to_be_installed_is_none(monkeypatch):
    def fails(*arguments, **options):
        raise subprocess.CalledProcessError(1, "g++")

    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(module.shutil, "which", lambda command: "/usr/bin/g++")
    monkeypatch.setattr(module.subprocess, "run", fails)
    assert module._compiler() is None


def test_a_gpu_is_described(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "NVIDIA H200")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (9, 0))
    monkeypatch.setattr(
        torch.cuda, "get_device_properties", lambda index: SimpleNamespace(total_memory=150_000_000_000)
    )
    monkeypatch.setattr(module, "_limits", lambda: ("no search here",))
    machine = preflight()
    assert (machine.kind, machine.bf16, machine.capability) == ("cuda", True, (9, 0))
    assert repr(machine).startswith("NVIDIA H200, 150 GB, compute capability 9.0 · torch")
    assert machine.limits == ("no search here",)
