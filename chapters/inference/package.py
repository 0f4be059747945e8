"""A model as a file that runs without its Python: torch.export, AOTInductor, and a program in C++ that loads it.

What is asked of a package: is it equal to eager, how large is it and of what, how soon does it answer, and
what does it check of what it is given? The instrument knows no model. Where another process must have
one, it is sent as `cloudpickle` writes it, so that a model of a notebook goes too.
"""

import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

import torch
from torch import Tensor, nn

from compile_lab._torch.inductor import inductor_cache_folder, inductor_settings
from compile_lab._torch.packages import packaged
from compile_lab.doors import door
from compile_lab.measure.child import end_group
from compile_lab.pickling import dumps

RUNNER_SOURCE = Path(__file__).with_name("runner.cpp")
PATIENCE_S = 300
"""How long another process may take before it counts as stuck."""


class PackageError(RuntimeError):
    """A package could not be made, read or run; says which, why, and what to do."""


@dataclass(frozen=True)
class Package:
    """A file of AOTInductor.

    ``parts``: bytes in the file by kind. ``written_for``: what it says of the machine that it was compiled for.
    """

    file: Path
    operations: int
    parts: Mapping[str, int]
    written_for: Mapping[str, str]

    @property
    def nbytes(self) -> int:
        """Of the file on disk."""
        return self.file.stat().st_size


@door
def package(model: nn.Module, *args: Tensor, dynamic: Mapping[str, Mapping[int, object]] | None = None) -> Package:
    """Export ``model`` for inference on ``args`` and compile it ahead of time into a file.

    ``dynamic`` as torch.export's ``dynamic_shapes``: by argument, which dimension may vary, and how far. The same model
    is compiled once for each number of threads (``torch.get_num_threads()``), which is written into a CPU's code, and
    for each setting of Inductor; its file is kept beside Inductor's caches.
    Raises PackageError, with torch's reason, for a model that cannot be exported or compiled.
    """
    try:
        with torch.no_grad():
            exported = torch.export.export(model.eval(), args, dynamic_shapes=dict(dynamic) if dynamic else None)
    except Exception as error:  # torch raises of many kinds here, and each says what to change
        raise PackageError(f"{type(model).__name__} cannot be exported: {_first_line(error)}") from error
    file = _place(exported)
    if not file.exists():
        require_compiler()
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=file.parent) as folder:  # nobody finds half a package
            try:
                made = packaged(exported, Path(folder) / "model.pt2")
            except Exception as error:
                raise PackageError(f"{type(model).__name__} cannot be compiled: {_first_line(error)}") from error
            Path(made).replace(file)
    operations = sum(node.op == "call_function" for node in exported.graph.nodes)
    return Package(file, operations, *contents(file))


def _place(exported: torch.export.ExportedProgram) -> Path:
    machine = f"{torch.backends.cpu.get_cpu_capability()}{platform.machine()}"
    laid_out = [
        (node.name, value.dtype, value.shape, value.stride(), value.device)
        for node in exported.graph.find_nodes(op="placeholder")
        if isinstance(value := node.meta["val"], Tensor)
    ]
    digest = hashlib.sha256(f"{exported}{laid_out}{machine}{torch.__version__}{inductor_settings()}".encode())
    for name, value in sorted({**exported.state_dict, **exported.constants}.items()):
        digest.update(name.encode())
        if isinstance(value, Tensor):
            digest.update(value.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return inductor_cache_folder() / "packages" / f"{digest.hexdigest()[:24]}.pt2"


@door
def contents(file: Path) -> tuple[dict[str, int], dict[str, str]]:
    """Bytes in a package by kind, and what it says of the machine it is for. PackageError for a file that is none."""
    kinds = {".so": "machine code and weights", ".cpp": "C++ that it was compiled from", ".cubin": "GPU kernels"}
    parts, written_for = dict.fromkeys(kinds.values(), 0) | {"other": 0}, {}
    try:
        with ZipFile(file) as zipped:
            for one in zipped.infolist():
                parts[kinds.get(Path(one.filename).suffix, "other")] += one.file_size
                if one.filename.endswith("wrapper_metadata.json"):
                    written_for = json.loads(zipped.read(one))
    except (OSError, BadZipFile, ValueError) as error:
        raise PackageError(f"{file} is no package of AOTInductor ({_first_line(error)}): make it again") from error
    return {kind: nbytes for kind, nbytes in parts.items() if nbytes}, written_for


# -- a program in C++


@dataclass(frozen=True)
class Ran:
    """One run of the C++ program: its answers, milliseconds by its own clock, CPU seconds and memory of all of it."""

    outputs: tuple[Tensor, ...]
    load_ms: float
    first_ms: float
    call_ms: float
    cpu_s: float
    peak_nbytes: int | None


def require_compiler() -> str:
    """The C++ compiler: ``CXX``, or g++. PackageError if there is none."""
    name = os.environ.get("CXX", "g++")
    if found := shutil.which(name):
        return found
    raise PackageError(f"no C++ compiler: {name!r} is not found. Install g++ (apt install g++), or name yours in CXX")


@door
def build_runner() -> Path:
    """The program of ``runner.cpp``, compiled against this torch; once, then kept beside Inductor's caches."""
    source = RUNNER_SOURCE.read_bytes()
    key = hashlib.sha256(source + f"{torch.__version__}{torch.__path__[0]}".encode()).hexdigest()[:16]
    program = inductor_cache_folder() / "packages" / f"runner-{key}"
    if not program.exists():
        compiler, root = require_compiler(), Path(torch.__path__[0])
        program.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=program.parent) as folder:
            made = Path(folder) / "runner"
            _checked([compiler, *_flags(root), str(RUNNER_SOURCE), "-o", str(made), *_libraries(root)], "g++")
            made.replace(program)
    return program


def _flags(root: Path) -> list[str]:
    include = root / "include"
    abi = f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"
    return ["-std=c++20", "-O1", abi, f"-I{include}", f"-I{include}/torch/csrc/api/include"]


def _libraries(root: Path) -> list[str]:
    on_gpu = ["-Wl,--no-as-needed", "-ltorch_cuda", "-lc10_cuda"] if torch.version.cuda else []
    return [f"-L{root}/lib", "-ltorch_cpu", "-ltorch", "-lc10", *on_gpu, f"-Wl,-rpath,{root}/lib"]


@door
def run_in_cpp(program: Path, file: Path, *inputs: Tensor, calls: int = 20) -> Ran:
    """What the C++ program answers. PackageError, with what it wrote, if it ends otherwise than it should."""
    contents(file)
    with tempfile.TemporaryDirectory() as folder:
        given, taken = Path(folder) / "in.pt", Path(folder) / "out.pt"
        torch.save(list(inputs), given)
        said, cpu_s, held = _measured([str(program), str(file), str(given), str(taken), str(calls)])
        outputs = tuple(torch.load(taken))
    return Ran(outputs, **json.loads(said), cpu_s=cpu_s, peak_nbytes=held)


# -- from a new process to the first answer


@dataclass(frozen=True)
class StartUp:
    """One way from a new process to its first answer: ``ready_s`` seconds of the clock after the imports, CPU seconds
    and peak memory of the whole process with the compilers it called, microseconds of a later call. What was not
    measured is None; ``stopped`` says why."""

    way: str
    ready_s: float | None = None
    cpu_s: float | None = None
    peak_nbytes: int | None = None
    call_us: float | None = None
    stopped: str = ""


@door
def start_ups(file: Path, *args: Tensor) -> list[StartUp]:
    """The package from Python, with Inductor's caches empty, and from C++: each in a process of its own, on one thread.
    A process that fails says so in its row.
    """
    return [_from_python(file, args), _from_cpp(file, args)]


def _from_python(file: Path, args: Sequence[Tensor]) -> StartUp:
    with tempfile.TemporaryDirectory() as folder:
        given = Path(folder) / "given"
        given.write_bytes(dumps(args))
        try:
            child = [sys.executable, "-m", f"{__package__}.start", str(given), str(file)]
            said, cpu_s, held = _measured(child, TORCHINDUCTOR_CACHE_DIR=folder)
        except PackageError as error:
            return StartUp("from Python", stopped=str(error))
        return StartUp("from Python", **json.loads(said.splitlines()[-1]), cpu_s=cpu_s, peak_nbytes=held)


def _from_cpp(file: Path, args: Sequence[Tensor]) -> StartUp:
    try:
        ran = run_in_cpp(build_runner(), file, *args)
    except PackageError as error:
        return StartUp("from C++", stopped=str(error))
    return StartUp("from C++", (ran.load_ms + ran.first_ms) / 1e3, ran.cpu_s, ran.peak_nbytes, ran.call_ms * 1e3)


# -- what it does not look at


@dataclass(frozen=True)
class UncheckedInput:
    """An input that is not what the package was made for, and what came of it without and with
    ``AOTI_RUNTIME_CHECK_INPUTS=1``: "equal to eager", "wrong, without an error", "an answer where eager refuses",
    "the process died", or the message of the refusal."""

    what: str
    unchecked: str
    checked: str


@door
def unchecked_inputs(model: nn.Module, cases: Mapping[str, Sequence[Tensor]], file: Path) -> list[UncheckedInput]:
    """Each case of inputs given to a package, in a fork of another process: one that dies takes nothing with it."""
    with tempfile.TemporaryDirectory() as folder:
        given = Path(folder) / "given"
        given.write_bytes(dumps((model, dict(cases))))
        found = [_outcomes(given, list(cases), file, check) for check in ("0", "1")]
    return [UncheckedInput(what, *(outcomes[what] for outcomes in found)) for what in cases]


def _outcomes(given: Path, left: list[str], file: Path, check: str) -> dict[str, str]:
    outcomes: dict[str, str] = {}
    while left:
        ended = _run_fork({"given": str(given), "file": str(file.resolve()), "check": check, "cases": left})
        outcomes |= dict(json.loads(line) for line in ended["said"].splitlines())
        if ended["status"] and "Traceback" not in ended["told"]:
            outcomes.setdefault(next(what for what in left if what not in outcomes), "the process died")
        elif ended["status"]:
            raise PackageError(f"the process that asks the package failed: {_last_line(ended['told'])}")
        left = [what for what in left if what not in outcomes]
    return outcomes


@door
def run_elsewhere(code: str, file: Path, given: Any) -> str:
    """What a Python program prints whose arguments are a package and a file of ``given``, as torch.save writes it; or
    how it ended, if badly. It runs in a fork of that other process."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "given.pt"
        torch.save(given, place)
        ended = _run_fork({"code": code, "arguments": [str(file.resolve()), str(place)]})
    if ended["status"]:
        return f"no answer: status {ended['status']}, {_last_line(ended['told'])}"
    return ended["said"].strip()


def _run_fork(question: Mapping[str, Any]) -> dict[str, Any]:
    """How a fork of the process that asks ended: what it ``said``, its last words ``told``, its ``status``.

    That process has imported torch for all questions, and ends when this one does: its stdin ends then.
    """
    with _fork_lock:
        if not _askers or _askers[0].poll() is not None:
            child = [sys.executable, "-m", f"{__package__}.start", "asks"]
            pipe, no, env = subprocess.PIPE, subprocess.DEVNULL, _environment()
            _askers[:] = [
                subprocess.Popen(child, stdin=pipe, stdout=pipe, stderr=no, text=True, env=env, start_new_session=True)
            ]
        (asker,) = _askers
        assert asker.stdout, "a pipe, as it was started"
        late = threading.Timer(PATIENCE_S, end_group, (asker,))
        late.start()
        try:
            print(json.dumps(question), file=asker.stdin, flush=True)
            return json.loads(asker.stdout.readline())
        except BaseException as error:  # nobody reads the answer that may yet come
            end_group(asker)
            asker.wait()
            if not isinstance(error, OSError | ValueError):
                raise
            raise PackageError(f"the process that asks packages ended, or took over {PATIENCE_S} s") from error
        finally:
            late.cancel()


_askers: list[subprocess.Popen[str]] = []
_fork_lock = threading.Lock()


# -- other processes


def _measured(command: Sequence[str], **environment: str) -> tuple[str, float, int | None]:
    """What a process says; CPU seconds and the most memory of it and of the compilers it called."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = subprocess.Popen(command, stdout=out, stderr=err, text=True, env=_environment() | environment)
        deadline = time.monotonic() + PATIENCE_S
        held = None
        while (ended := os.wait4(process.pid, os.WNOHANG))[0] == 0:
            held = _held_nbytes(process.pid) or held
            if time.monotonic() > deadline:
                process.kill()
                process.wait()
                raise PackageError(f"{Path(command[0]).name} did not end within {PATIENCE_S} s and was stopped")
            time.sleep(0.01)
        _, status, usage = ended
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0), err.seek(0)
        if process.returncode:
            raise PackageError(f"{Path(command[0]).name} ended with {process.returncode}: {_last_line(err.read())}")
        return out.read(), usage.ru_utime + usage.ru_stime, held


def _held_nbytes(pid: int) -> int | None:
    """The most memory that a process held so far; None where the system does not tell, as on macOS.

    Not `wait4`'s ``ru_maxrss``: a child begins with what its parent held.
    """
    try:
        said = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return None
    found = re.search(r"VmHWM:\s+(\d+) kB", said)
    return int(found[1]) * 1024 if found else None


def _ended(command: Sequence[str]) -> subprocess.CompletedProcess:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, env=_environment())
    except subprocess.TimeoutExpired as late:
        raise PackageError(f"{Path(command[0]).name} did not end within {PATIENCE_S} s and was stopped") from late


def _checked(command: Sequence[str], what: str) -> None:
    ended = _ended(command)
    if ended.returncode:
        raise PackageError(f"{what} ended with {ended.returncode}: {_last_line(ended.stderr)}")


def _environment() -> dict[str, str]:
    """Of a process that finds the same packages as this one, on one thread."""
    paths = os.pathsep.join(path for path in sys.path if path)
    return {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1", "TORCHINDUCTOR_COMPILE_THREADS": "1"}


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def _last_line(output: str) -> str:
    return next(iter(reversed(output.strip().splitlines())), "it wrote nothing")
