"""Names of torch._inductor for a package that runs without Python's compiler: AOTInductor's."""

from pathlib import Path
from typing import Any
from zipfile import ZipFile


def packaged(exported: Any, file: Path, options: dict[str, Any] | None = None) -> str:
    """Compile an exported program ahead of time into ``file`` (ending in .pt2): where it lies."""
    from torch._inductor import aoti_compile_and_package

    return aoti_compile_and_package(exported, package_path=str(file), inductor_configs=options)


def unpacked(file: str | Path, num_runners: int = 1) -> Any:
    """Such a package, loaded: a function, with ``load_constants`` and ``get_constant_fqns``. So many threads can be
    inside it at once as there are runners."""
    from torch._inductor.package import load_package

    return load_package(str(file), num_runners=num_runners)


def package_sources(file: str | Path) -> list[str]:
    """The C++ of a package: of the file that calls the kernels, or of all if none is named so."""
    with ZipFile(file) as package:
        names = [name for name in package.namelist() if name.endswith(".cpp")]
        named = [name for name in names if "wrapper" in name] or names
        return [package.read(name).decode() for name in named]
