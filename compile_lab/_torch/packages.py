"""Names of torch._inductor for a package that runs without Python's compiler: AOTInductor's."""

import contextlib
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import torch

from .inductor import option_of

LOAD = "import sys; from torch._inductor.package import load_package; load_package(sys.argv[1])"
_ENDED: list[str] = []


def packaged(exported: Any, file: Path, options: dict[str, Any] | None = None) -> str:
    """Compile an exported program ahead of time into ``file`` (ending in .pt2): where it lies.

    Its headers are read as they are: to compile them first pays from the third package on.
    """
    from torch._inductor import aoti_compile_and_package

    headers = "aot_inductor.precompile_headers"
    plain = {} if option_of(headers) is None else {headers: False}
    return aoti_compile_and_package(exported, package_path=str(file), inductor_configs={**plain, **(options or {})})


def unpacked(file: str | Path, *, tried: bool = torch.version.cuda is not None) -> Any:
    """Such a package, loaded: a function.

    With ``tried`` another process loads a package first, once: there is a build of torch that a package of its own ends
    (2.11.0 for CUDA 13.0), and a notebook would end with it. RuntimeError if that happens.
    """
    if tried and (ended := _ended_by_loading(str(file))):
        raise RuntimeError(
            f"a process that loaded {Path(file).name} was ended by {ended}: this build of torch, {torch.__version__}, "
            "cannot load packages into Python here; run it from C++, or use another build"
        )
    return loader()(str(file))


def loader() -> Any:
    """What loads a package; torch's compiler is imported for it."""
    from torch._inductor.package import load_package

    return load_package


def probe_cpu() -> None:
    """Find out, for this process and its forks, which instructions the CPU has, as loading a package does.

    Torch tries each kind of them in a process that imports torch: half a minute and more where that takes seconds.
    """
    from torch._inductor.cpu_vec_isa import pick_vec_isa

    # RuntimeError: no compiler, or one that fails. OSError: a cache that cannot be written or locked.
    with contextlib.suppress(RuntimeError, OSError):  # loading a package says what is missing
        pick_vec_isa()


def _ended_by_loading(file: str) -> str:
    """The signal that ends a process which loads this package, or nothing; the first package's answer is kept."""
    if not _ENDED:
        code = subprocess.run([sys.executable, "-c", LOAD, file], capture_output=True, check=False).returncode
        _ENDED.append(signal.Signals(-code).name if code < 0 else "")
    return _ENDED[0]


def package_sources(file: str | Path) -> list[str]:
    """The C++ of a package: of the file that calls the kernels, or of all if none is named so."""
    with ZipFile(file) as package:
        names = [name for name in package.namelist() if name.endswith(".cpp")]
        named = [name for name in names if "wrapper" in name] or names
        return [package.read(name).decode() for name in named]
