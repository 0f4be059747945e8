"""What can this machine run? One line at the top of each chapter."""

import importlib
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import warnings
from dataclasses import dataclass
from html import escape
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Literal

from .doors import door
from .known_faults import faults_met, release
from .page.dress import dress
from .recordings import triton_version

OLDEST_TORCH = (2, 10)
TESTED_TORCH = "2.13"
SLOW_GUARDS = "Guards may run slower on Python 3.13.0"
"""How torch's warning begins."""


@dataclass(frozen=True)
class Machine:
    """What a chapter runs on; prints as one line, with what is newer than tested, and what is missing and its cost.

    `device` is the GPU's name or "CPU"; `bf16` says whether it computes in bf16 (a GPU: in hardware); `compiler` is
    the C++ compiler that torch.compile calls, name and version; `memory_nbytes` is the GPU's memory or else the
    machine's, None where it cannot be told; `cores` are those this process may use; `missing` holds full sentences.
    `faults` are those of this torch's that a step here would meet, each in a sentence with its switch; `limits` what
    torch's own checks say that it does not do on this GPU.
    `jax` is its version, None where it is not installed; one chapter alone uses it, so the line leaves it out.
    """

    device: str
    kind: Literal["cpu", "cuda"]
    capability: tuple[int, int] | None
    bf16: bool
    torch: str
    triton: str | None
    cuda: str | None
    python: str
    compiler: str | None
    memory_nbytes: int | None
    cores: int
    missing: tuple[str, ...] = ()
    jax: str | None = None
    faults: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()

    def __repr__(self) -> str:
        memory = f", {self.memory_nbytes / 1e9:.0f} GB" if self.memory_nbytes else ""
        if self.kind == "cuda":
            capability = ".".join(map(str, self.capability or ()))
            device = f"{self.device}{memory}, compute capability {capability}{'' if self.bf16 else ', no bf16'}"
        else:
            device = f"{self.device}, {self.cores} core{'s' * (self.cores != 1)}{memory}"
        versions = [f"torch {self.torch}"]
        versions += [f"{name} {value}" for name, value in (("CUDA", self.cuda), ("triton", self.triton)) if value]
        versions += [self.compiler] if self.compiler else []
        newer = []
        if release(self.torch) > release(TESTED_TORCH):
            newer = [
                f"torch is newer than the {TESTED_TORCH} of the stored outputs: where one differs, that may be why"
            ]
        return " · ".join(
            [device, *versions, f"Python {self.python}", *newer, *self.limits, *self.faults, *self.missing]
        )

    def _repr_html_(self) -> str:
        return f'<p class="lab-machine">{escape(repr(self))}</p>'


@door
def preflight() -> Machine:
    """What this machine can run. A notebook's outputs have the book's looks from here on.

    Raises ModuleNotFoundError without torch, RuntimeError for a torch that is too old, each with the way out.

    >>> from compile_lab.preflight import preflight
    >>> machine = preflight()
    >>> machine.kind in ("cpu", "cuda"), machine.cores > 0
    (True, True)
    """
    torch = _torch_module()
    dress()
    compiler = _compiler()
    gpu = torch.cuda.is_available()
    capability = torch.cuda.get_device_capability() if gpu else None
    return Machine(
        device=torch.cuda.get_device_name() if gpu else "CPU",
        kind="cuda" if gpu else "cpu",
        capability=capability,
        bf16=capability is None or capability >= (8, 0),
        torch=str(torch.__version__),
        triton=triton_version(),
        cuda=torch.version.cuda if gpu else None,
        python=f"{sys.version_info.major}.{sys.version_info.minor}",
        compiler=compiler,
        memory_nbytes=torch.cuda.get_device_properties(0).total_memory if gpu else _memory_nbytes(),
        cores=_cores(),
        missing=_missing(compiler),
        jax=metadata.version("jax") if importlib.util.find_spec("jax") else None,
        faults=_faults(str(torch.__version__), "cuda" if gpu else "cpu"),
        limits=_limits() if gpu else (),
    )


def _torch_module() -> ModuleType:
    try:
        torch = importlib.import_module("torch")
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            f"torch is not installed, and every chapter needs it: pip install torch (tested with {TESTED_TORCH}; "
            "https://pytorch.org/get-started has the choice of builds)"
        ) from None
    version = str(torch.__version__)
    if release(version) < OLDEST_TORCH:
        oldest = ".".join(map(str, OLDEST_TORCH))
        raise RuntimeError(
            f"torch {version} is too old for this book: it needs {oldest} or newer and is tested with {TESTED_TORCH}. "
            "pip install --upgrade torch, then restart the kernel"
        )
    return torch


def _faults(version: str, device: str) -> tuple[str, ...]:
    """The known faults of this torch's that a step here meets, each in a sentence with what turns it off."""
    number = ".".join(map(str, release(version)))
    return tuple(
        f"torch {number} {each.wrong} (pytorch#{each.number}): set {each.environment} before torch is imported"
        for each in faults_met(version, device)
    )


def _limits() -> tuple[str, ...]:
    """What torch does not do on this GPU, each by the check that torch itself makes when it comes to it."""
    from ._torch.inductor import searches_products

    torch = _torch_module()
    query = torch.empty(1, 1, 16, 64, dtype=torch.float16, device="cuda")
    asked = torch.backends.cuda.SDPAParams(query, query, query, None, 0.0, False, False)
    checks = {
        "torch.compile leaves what takes or returns bf16 to eager mode here, with a warning: what chapters compile in "
        "bf16 is shown as recorded": (torch.cuda.is_bf16_supported(including_emulation=False)),
        "scaled_dot_product_attention has no FlashAttention here": (torch.backends.cuda.can_use_flash_attention(asked)),
        "max-autotune does not search templates of matmuls here": searches_products(),
    }
    return tuple(limit for limit, does in checks.items() if not does)


def _compiler() -> str | None:
    """The name and version of the C++ compiler: $CXX if set, as torch.compile does, else the usual ones."""
    usual = ["cl"] if sys.platform == "win32" else ["g++", "clang++"]
    for command in [os.environ["CXX"]] if os.environ.get("CXX") else usual:
        found = shutil.which(command)
        if not found:
            continue
        try:
            asked = [found] if sys.platform == "win32" else [found, "--version"]
            told = subprocess.run(asked, capture_output=True, text=True, timeout=300, check=sys.platform != "win32")
        except (OSError, subprocess.SubprocessError):
            continue  # macOS answers like this until the command-line tools are there
        text = told.stdout + told.stderr
        version = re.search(r"\d+\.\d+", text)
        name = "clang++" if "clang" in text.lower() else Path(command).stem
        return f"{name} {version.group()}" if version else name
    return None


def _missing(compiler: str | None) -> tuple[str, ...]:
    notes = []
    if compiler is None:
        install = {
            "darwin": "xcode-select --install",
            "win32": "Visual Studio Build Tools, then start from its developer prompt",
        }.get(sys.platform, "apt install g++, or your system's like")
        notes.append(f"no C++ compiler, so torch.compile cannot build kernels for this CPU: {install}")
    if reason := _cache_refuses():
        notes.append(
            f"the folder of compiled code cannot be written ({reason}), so torch.compile fails: make room, or set "
            "TORCHINDUCTOR_CACHE_DIR to a folder that can"
        )
    if sys.version_info[:3] == (3, 13, 0):
        _hush_slow_guards()
        notes.append("Python 3.13.0 evaluates guards slowly, so compiled code costs more a call: 3.13.1 fixes it")
    if not Path(importlib.util.cache_from_source(_torch_module().__file__ or "")).exists():
        notes.append(
            "Python keeps no byte code of torch, so each process that a cell starts takes seconds longer: unset "
            "PYTHONDONTWRITEBYTECODE, and set PYTHONPYCACHEPREFIX to a folder that can be written"
        )
    for package, without in (("plotly", "figures cannot be drawn"), ("ipywidgets", "explorers have no controls")):
        if importlib.util.find_spec(package) is None:
            notes.append(f"no {package}, so {without}: pip install {package}")
    return tuple(notes)


def _hush_slow_guards() -> None:
    """Torch warns of it too, in the output of whatever compiles first, here or in a rank: preflight has said it."""
    warnings.filterwarnings("ignore", SLOW_GUARDS)
    others = os.environ.get("PYTHONWARNINGS", "")
    if SLOW_GUARDS not in others:
        os.environ["PYTHONWARNINGS"] = ",".join(filter(None, [others, f"ignore:{SLOW_GUARDS}"]))


def _cache_refuses() -> str | None:
    """Why nothing can be written where Inductor keeps what it compiled; None if it can."""
    from ._torch.inductor import inductor_cache_folder

    folder = Path(os.environ.get("TORCHINDUCTOR_CACHE_DIR") or inductor_cache_folder())
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(4096))
    except OSError as error:
        return error.strerror
    return None


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _memory_nbytes() -> int | None:
    if platform.system() == "Windows":
        return _windows_memory_nbytes()
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


def _windows_memory_nbytes() -> int | None:
    import ctypes

    kilobytes = ctypes.c_ulonglong()
    windows = ctypes.windll.kernel32  # type: ignore[attr-defined]  # there alone
    known = windows.GetPhysicallyInstalledSystemMemory(ctypes.byref(kilobytes))
    return kilobytes.value * 1024 if known else None
