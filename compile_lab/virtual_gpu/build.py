"""The C++ part of the virtual GPU, compiled once for each torch and kept in the user's cache.

It must be loaded before torch is imported, so nothing here imports torch: its folder and version are read from disk.
"""

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from .errors import VirtualGPUError

KNOWN_TORCH = ((2, 11), (2, 15))
"""The first and the last torch whose internals this was seen to fit."""

_SOURCE = Path(__file__).with_name("fake_cuda.cpp")
_RULES = _SOURCE.with_name("attention.h")


def library() -> Path:
    """The compiled guard for the torch of this environment; compiles it (half a minute) if it is not there yet.

    Raises VirtualGPUError for a torch outside the known series, and without a C++ compiler.
    """
    torch, version = installed_torch()
    check_torch(version)
    key = hashlib.sha256(f"{version} {torch} ".encode() + _SOURCE.read_bytes() + _RULES.read_bytes()).hexdigest()[:16]
    target = _cache() / f"fake_cuda-{version}-{key}.so"
    if not target.exists():
        _compile(torch, target)
    return target


def installed_torch() -> tuple[Path, str]:
    """The folder and the version of the torch that `import torch` would find."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        raise VirtualGPUError("torch is not installed: pip install torch")
    folder = Path(spec.origin).parent
    found = re.search(r"__version__ = ['\"](.+?)['\"]", (folder / "version.py").read_text())
    return folder, found[1] if found else "unknown"


def check_torch(version: str) -> None:
    """Refuse a torch whose internals nobody has looked at: a wrong answer would look like a right one."""
    series = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    first, last = KNOWN_TORCH
    if not first <= series <= last:
        known = " to ".join(".".join(map(str, each)) for each in KNOWN_TORCH)
        raise VirtualGPUError(
            f"The virtual GPU stands on torch's internals and knows those of torch {known}; here is torch {version}. "
            "Install one of these, or use a real GPU."
        )


def _cache() -> Path:
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "compile_lab"
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(error) from None
    return root


def _unwritable(error: OSError) -> VirtualGPUError:
    return VirtualGPUError(
        f"The virtual GPU keeps a compiled file in the user's cache, which cannot be written ({error.strerror}): "
        "make room, or set XDG_CACHE_HOME to a folder that can."
    )


def _compile(torch: Path, target: Path) -> None:
    compiler = _compiler()
    try:
        draft = tempfile.TemporaryDirectory(dir=target.parent)
    except OSError as error:  # the folder is there, and full or read-only
        raise _unwritable(error) from None
    with draft as folder:
        made = Path(folder) / target.name
        command = [
            compiler,
            "-std=c++20",
            "-O1",
            "-fPIC",
            "-shared",
            f"-I{torch}/include",
            str(_SOURCE),
            "-o",
            str(made),
        ]
        command += [f"-L{torch}/lib", "-lc10", "-ltorch_cpu", f"-Wl,-rpath,{torch}/lib"]
        told = subprocess.run(command, capture_output=True, text=True)
        if told.returncode:
            errors = "\n".join(line for line in told.stderr.splitlines() if "error" in line)[:2000]
            raise VirtualGPUError(f"{Path(compiler).name} could not compile the virtual GPU's C++ part:\n{errors}")
        made.replace(target)  # whole or not at all, also when two processes build it at once


def _compiler() -> str:
    named = os.environ.get("CXX")
    for command in [named] if named else ["g++", "clang++"]:
        if found := shutil.which(command):
            return found
    missing = f"$CXX names {named!r}, which is not there" if named else "there is no g++ and no clang++"
    raise VirtualGPUError(
        f"The virtual GPU needs a C++ compiler once, for a small file that stands in for the CUDA device, "
        f"and {missing}. Install one: apt install g++, or your system's like."
    )
