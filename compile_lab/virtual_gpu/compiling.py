"""The child's side of ``assembly``: Triton's compiler and the tools of its wheel, on one kernel."""

import contextlib
import hashlib
import io
import json
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from .._torch.virtual_gpu import triton_helpers
from .chips import Chip
from .kernels import HandWritten, defined
from .line_maps import SOURCE


class Misfit(Exception):
    """The names that were given are not those of the kernel's parameters."""


Layout = tuple[dict[str, int], int, int]
"""Blocks, warps, stages."""


def compiled(
    kernel: HandWritten | str,
    layouts: Sequence[Layout] | None,
    arguments: Mapping[str, Any],
    chip: Chip,
    first: bool,
    texts: bool = True,
) -> tuple[str, Any]:
    """("done", the stages and resources for each layout), or "misfit" or "failed" and in words what is wrong."""
    with _own_cache():
        try:
            if isinstance(kernel, HandWritten):
                inputs = [(layout, *_hand_written(kernel, layout, arguments)) for layout in layouts or ()]
            else:
                inputs = list(_inductors(kernel, layouts, first))
            return "done", [
                {"config": layout, **_stages(made, options, chip, texts)} for layout, made, options in inputs
            ]
        except Misfit as error:
            return "misfit", str(error)
        except Exception as error:
            return "failed", _reason(error)


def resources(kernels: Sequence[str], chip: Chip) -> list[tuple[str, Any]]:
    """The same for kernels of Inductor's, each in its first layout, and of the stages only what each takes."""
    return [compiled(kernel, None, {}, chip, first=True, texts=False) for kernel in kernels]


@contextlib.contextmanager
def _own_cache() -> Iterator[None]:
    """Triton's cache does not look at a source's file name, which is in what it keeps: keep ours apart.

    Its key is a hash of Triton's whole library, hundreds of megabytes, in each new process. Here the version does.
    """
    import triton
    from triton import knobs
    from triton.runtime import cache

    folder = str(Path(knobs.cache.dir) / "compile_lab")
    with (
        mock.patch.dict(os.environ, {"TRITON_CACHE_DIR": folder}),
        mock.patch.object(cache, "triton_key", lambda: triton.__version__),
        contextlib.redirect_stdout(io.StringIO()),
    ):
        yield


def _hand_written(kernel: HandWritten, layout: Layout, arguments: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    from triton.compiler import ASTSource

    function = kernel.made()
    blocks, warps, stages = layout
    constant = [parameter.name for parameter in function.params if parameter.is_constexpr]
    plain = [name for name in function.arg_names if name not in constant]
    _fits(kernel.name, "Config.blocks", blocks, constant)
    _fits(kernel.name, "arguments", arguments, plain)
    signature, constants, attributes = {}, {}, {}
    for at, name in enumerate(function.arg_names):
        value = blocks[name] if name in constant else arguments[name]
        if name in constant or value == 1:  # a launch makes a constant of a 1
            signature[name], constants[at,] = "constexpr", value
            continue
        signature[name] = value if isinstance(value, str) else "i32" if -(2**31) <= value < 2**31 else "i64"
        if str(value).startswith("*") or (isinstance(value, int) and value % 16 == 0):
            attributes[at,] = [["tt.divisibility", 16]]
    source = ASTSource(function, signature, constants, attributes)
    return source, {"num_warps": warps, "num_stages": stages}


def _fits(kernel: str, where: str, given: Mapping[str, Any], expected: Sequence[str]) -> None:
    if set(given) != set(expected):
        raise Misfit(f"{where} of {kernel} must give {', '.join(expected)}, and gives {', '.join(given) or 'nothing'}")


def _inductors(
    kernel: str, layouts: Sequence[Layout] | None, first: bool
) -> Iterator[tuple[Layout, Any, dict[str, Any]]]:
    """What Inductor would hand to Triton, for its own configurations or for those that are given."""
    import triton
    from triton.compiler import ASTSource

    with mock.patch.object(triton_helpers(), "set_driver_to_gpu", lambda: None):
        scope = defined(kernel, SOURCE, {"__name__": "kernel"})
    name = re.findall(r"@triton\.jit\s+def (\w+)\(", kernel)[0]
    tuner = scope[name]
    constant = [n for n, kind in tuner.triton_meta["signature"].items() if kind == "constexpr"]
    fixed = tuner.triton_meta["constants"]
    configs = tuner.configs[:1] if first else tuner.configs
    if layouts is not None:
        for blocks, *_ in layouts:
            _fits(name, "Config.blocks", blocks, [n for n in constant if n not in fixed])
        configs = [triton.Config(blocks, num_warps=warps, num_stages=stages) for blocks, warps, stages in layouts]
    for config in configs:
        meta = tuner._create_compile_meta(config)
        source = ASTSource(tuner.fn, meta["signature"], meta["constants"], meta["configs"][0])
        layout = dict(config.kwargs), config.num_warps, config.num_stages
        yield layout, source, tuner._create_compile_options(config, meta)


def _stages(source: Any, options: dict[str, Any], chip: Chip, texts: bool) -> dict[str, Any]:
    import triton
    from triton.backends.compiler import GPUTarget

    major, minor = chip.capability
    made = triton.compile(source, target=GPUTarget("cuda", 10 * major + minor, chip.warp_threads), options=options)
    taken = {"shared_bytes": made.metadata.shared, **_from_machine_code(made.asm["cubin"], disassembled=texts)}
    if not texts:
        return taken
    found = {stage: made.asm[stage] for stage in ("ttir", "ttgir", "llir")}
    found["llir"] = re.sub(r'"(?:/[^"/]+)+/([^"]*)"', r'"\1"', found["llir"])  # folders of this machine
    found["ptx"] = re.split(r"^\t\.(?:file|section)\t", made.asm["ptx"], maxsplit=1, flags=re.MULTILINE)[0]
    return {**found, **taken}


def _from_machine_code(cubin: bytes, disassembled: bool) -> dict[str, Any]:
    """SASS, registers and spills. The tools take a second on a large kernel, so what they said is kept beside it."""
    name = hashlib.sha256(cubin).hexdigest() + ("" if disassembled else "-usage")
    kept = Path(os.environ["TRITON_CACHE_DIR"]) / f"{name}.json"
    if kept.exists():
        return json.loads(kept.read_text())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(cubin)
        try:
            usage = _output("cuobjdump", "-res-usage", str(path))
            sass = _output("nvdisasm", "-c", "-gp", str(path)) if disassembled else None
        except (OSError, subprocess.SubprocessError, AttributeError) as error:
            missing = f"triton's cuobjdump and nvdisasm do not run here ({error})"
            return {"sass": None, "registers": None, "spills": None, "missing": missing}
        told = {name: int(value) for name, value in re.findall(r"\b(REG|STACK):(\d+)", usage)}
        found = {"sass": sass, "registers": told["REG"], "spills": told["STACK"], "missing": ""}
    draft = kept.with_suffix(f".{os.getpid()}")
    draft.write_text(json.dumps(found))
    draft.replace(kept)  # whole or not at all
    return found


def _output(tool: str, *arguments: str) -> str:
    from triton import knobs

    command = [getattr(knobs.nvidia, tool).path, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=600).stdout


def _reason(error: Exception) -> str:
    """The line of a compiler's complaint that says it, without folders; of a called function, that function's."""
    while isinstance(error.__cause__, type(error)):
        error = error.__cause__
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if lines and (at := re.fullmatch(r"at (\d+):\d+:", lines[0])):  # Triton's: the place, the source, and what is wrong
        return f"line {at[1]}: {lines[-1]}"
    telling = [line for line in lines if re.search(r"\berror\b|Error|\brequires?\b|must", line)] or lines
    text = telling[0] if telling else type(error).__name__
    return re.sub(r"(?:/[\w.+-]+)+/", "", text).removeprefix("error: ")
