"""A few training steps of a GPT, started again and again: what is in the folder, what has changed, what it costs.

Each start is a process (``python -m chapters.return_on_investment.experiments.starts JSON``) whose loss is a function
in a file, so that a line or a name can change. The first is cold; most find a copy of its cache. Two are killed, as a
machine is taken away: one while it compiles, one while it trains, and those find nothing but what the killed process
left.
"""

import json
import os
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from compile_lab.measure.child import end_group
from compile_lab.source import PACKAGE

from ...registry import Progress
from ..restarts import Restart, answers

BUDGET_S = {"cuda": 350, "cpu": 900}
SOURCE = "def loss_of(model, tokens, targets):\n    return model(tokens, targets) * 1.0\n"
STEPS = 8
KILLED_AFTER = 3
"""The step after which the training process is killed."""


@dataclass(frozen=True)
class Start:
    """What is different from the cold start. ``folder`` is "kept" (a copy of the first one's cache) or "empty".

    ``killed`` is when a process before it is killed in the same folder: "compiling", "training", or never. Its source
    lies where the first one's lay, unless it or ``path`` differs.
    """

    folder: str = "kept"
    artifacts: bool = False
    source: str = SOURCE
    path: str = "job"
    environment: Mapping[str, str] = field(default_factory=dict)
    killed: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    rows: int = 0


STARTS: dict[str, Start] = {
    "cold": Start("empty"),
    "artifacts, empty folder": Start("empty", artifacts=True),
    "another constant": Start(source=SOURCE.replace("1.0", "2.0")),
    "another option": Start(options={"epilogue_fusion": False}),
    "cold, one compiler at a time": Start("empty", environment={"TORCHINDUCTOR_COMPILE_THREADS": "1"}),
    "another batch size": Start(rows=2),
    "killed while it compiled, again": Start("empty", killed="compiling"),
    "killed while it trained, again": Start("empty", killed="training"),
    "the same folder": Start(),
    "another path": Start(path="elsewhere"),
    "AOTAutograd's cache off": Start(environment={"TORCHINDUCTOR_AUTOGRAD_CACHE": "0"}),
    "three comment lines above": Start(source="# one\n# two\n# three\n" + SOURCE),
    "a name changed": Start(source=SOURCE.replace("targets", "labels")),
    "another rank": Start(environment={"RANK": "1", "LOCAL_RANK": "1", "WORLD_SIZE": "2"}),
    "caches forbidden": Start(environment={"TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1"}),
}
"""By name."""
GPT2 = {"layers": 12, "dim": 768, "heads": 12, "context": 1024, "vocabulary": 50_304, "batch": 8}
MINI = {"layers": 4, "dim": 64, "heads": 4, "context": 64, "vocabulary": 600, "batch": 16}


def measured(device: str, progress: Progress = iter, names: tuple[str, ...] = tuple(STARTS)) -> dict[str, Any]:
    """Every start's seconds and what the caches said, as plain JSON values: minutes, one start after the other.

    Returns ``{"what", "starts": [Restart as a dict]}``. A start that fails or comes too late has ``stopped``. "cold"
    is always run, and first.
    """
    ends = time.monotonic() + BUDGET_S[device]
    shape = GPT2 if device == "cuda" else MINI
    with tempfile.TemporaryDirectory() as root:
        series = _Starts(Path(root), device, shape, ends)
        found = {"cold": series.start("cold")}
        if found["cold"].stopped:
            raise RuntimeError(f"the cold start came to no end: {found['cold'].stopped}")
        others = [name for name in names if name != "cold"]
        for name in progress(others):
            found[name] = series.start(name)
    what = f"{shape['layers']} layers of width {shape['dim']}, a training step"
    starts = [asdict(found[name]) for name in STARTS if name in found]
    return {"what": what, "starts": starts}


class _Starts:
    """Starts of one program under one root, which holds the first one's cache folder and its artifacts."""

    def __init__(self, root: Path, device: str, shape: Mapping[str, int], ends: float) -> None:
        self.root, self.device, self.shape, self.ends = root, device, shape, ends

    def start(self, name: str) -> Restart:
        """One start; what goes wrong is told as ``stopped``."""
        one = STARTS[name]
        own = self.root / name.replace(" ", "_")
        own.mkdir()
        cache = self.root / "first" if name == "cold" else own / "cache"
        if one.folder == "kept":
            shutil.copytree(self.root / "first", cache)
        try:
            if one.killed:
                self._killed(name, one, own, cache)
            before = _machine_code(cache)
            found = self._answer(self._run(name, one, own, cache), name)
            return Restart(name, **found, built=len(_machine_code(cache) - before))
        except subprocess.TimeoutExpired:  # its own words name the command, and so this machine's folders
            return Restart(name, stopped="not done in the time that was left")
        except (RuntimeError, OSError, ValueError) as error:
            return Restart(name, stopped=f"{type(error).__name__}: {str(error).strip()[-200:]}")

    def _killed(self, name: str, one: Start, own: Path, cache: Path) -> None:
        """Start it and kill it: in the middle of its steps, or as soon as the compiler has written something.

        RuntimeError if it came to its end by itself before that.
        """
        running = self._run(name, one, own, cache)
        if one.killed == "training":
            for line in running.stdout or ():
                if line.startswith(f"step {KILLED_AFTER} "):
                    break
        else:
            until = time.monotonic() + 60
            while running.poll() is None and not _sources(cache) and time.monotonic() < until:
                time.sleep(0.02)
        _kill(running)
        if running.returncode != -signal.SIGKILL:
            raise RuntimeError(f"the process that was to be killed ended by itself with {running.returncode}")

    def _run(self, name: str, one: Start, own: Path, cache: Path) -> subprocess.Popen:
        place = self.root / "job" if (one.source, one.path) == (SOURCE, "job") else own / one.path
        place.mkdir(exist_ok=True)
        (place / "loss_of.py").write_text(one.source, "utf-8")
        asked = {
            "device": self.device,
            "shape": dict(self.shape) | ({"batch": one.rows} if one.rows else {}),
            "place": str(place),
            "options": dict(one.options),
            "checkpoint": str(own / "checkpoint.pt") if one.killed == "training" else "",
            "save": str(self.root / "artifacts") if name == "cold" else "",
            "load": str(self.root / "artifacts") if one.artifacts else "",
        }
        inherited = {key: value for key, value in os.environ.items() if not key.startswith("TORCHINDUCTOR_CACHE")}
        environment = {**inherited, **one.environment, "TORCHINDUCTOR_CACHE_DIR": str(cache)}
        environment["PYTHONPATH"] = os.pathsep.join([str(PACKAGE.parent), environment.get("PYTHONPATH", "")])
        environment["TRITON_CACHE_DIR"] = str(cache / "triton")
        if self.device == "cpu":
            environment |= {"TORCHINDUCTOR_COMPILE_THREADS": "1", "OMP_NUM_THREADS": "1"}
        return subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", __spec__.name, json.dumps(asked)],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def _answer(self, running: subprocess.Popen, name: str) -> dict[str, Any]:
        try:
            out, err = running.communicate(timeout=max(1.0, self.ends - time.monotonic()))
        except subprocess.TimeoutExpired:
            _kill(running)
            raise
        if running.returncode:
            raise RuntimeError(err.strip()[-200:] or f"exit code {running.returncode}")
        return json.loads(out.strip().splitlines()[-1])


def _sources(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*.py") if path.is_file()] if folder.is_dir() else []


def _machine_code(folder: Path) -> set[Path]:
    """What compilers wrote: libraries of C++, binaries of Triton."""
    found = (path for path in folder.rglob("*") if path.suffix in (".so", ".cubin")) if folder.is_dir() else ()
    return set(found)


def _kill(running: subprocess.Popen) -> None:
    """The process and those that it started, at once."""
    end_group(running)
    running.communicate()


def child(request: Mapping[str, Any]) -> dict[str, Any]:
    """In the process that is started: train some steps, and say what the first took and what the caches said.

    With a checkpoint it goes on from there, and leaves one after each step. Prints a line after each step.
    """
    import torch

    from compile_lab._torch.caches import key_parts_heard
    from compile_lab._torch.dynamo import dynamo_utils

    from ...shared import subjects

    sys.path.insert(0, request["place"])
    from loss_of import loss_of

    shape = dict(request["shape"])
    batch = shape.pop("batch")
    model = subjects.deep_gpt(**shape, device=request["device"])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    tokens = subjects.tokens(model, batch)
    nbytes = None
    if request["load"]:
        content = Path(request["load"]).read_bytes()
        nbytes = len(content)
        if torch.compiler.load_cache_artifacts(content) is None:
            raise RuntimeError("the artifacts could not be read: save them again, with the torch that loads them")
    compiled = torch.compile(loss_of, options=request["options"] or None)

    def step() -> tuple[float, float, float]:
        """Seconds on the clock, and of work; the loss."""
        begin, worked = time.perf_counter(), _worked_s()
        with torch.autocast(request["device"], torch.bfloat16, enabled=request["device"] == "cuda"):
            loss = compiled(model, *tokens)
        loss.backward()
        if request["device"] == "cuda":
            torch.cuda.synchronize()
        took = time.perf_counter() - begin, _worked_s() - worked
        optimizer.step()
        optimizer.zero_grad()
        return *took, loss.item()

    checkpoint = Path(request["checkpoint"]) if request["checkpoint"] else None
    done, rows = 0, []
    if checkpoint and checkpoint.exists():
        kept = torch.load(checkpoint)
        model.load_state_dict(kept["model"]), optimizer.load_state_dict(kept["optimizer"])
        done = kept["done"]
    parts: dict[str, str] = {}
    with key_parts_heard(parts):
        for number in range(done, STEPS):
            rows.append(step())
            if checkpoint:
                torch.save(
                    {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "done": number + 1},
                    temporary := checkpoint.with_suffix(".part"),
                )
                temporary.replace(checkpoint)  # a kill while it is written leaves the last one whole
            print(f"step {number + 1} {rows[-1][2]}", flush=True)
    first, *later = rows
    middle = [statistics.median(column) for column in zip(*later, strict=True)]
    if request["save"]:
        saved = torch.compiler.save_cache_artifacts()
        assert saved is not None  # what was compiled is there to be saved
        content, _ = saved
        Path(request["save"]).write_bytes(content)
        nbytes = len(content)
    return {
        "seconds": round(max(0.0, first[0] - middle[0]), 3),
        "cpu_s": round(max(0.0, first[1] - middle[1]), 3),
        "step_ms": round(1e3 * middle[0], 3),
        "found": answers(dynamo_utils.counters),
        "artifacts_nbytes": nbytes,
        "first_step": done + 1,
        "losses": [loss for *_, loss in rows],
        "key_parts": parts,
    }


def _worked_s() -> float:
    """Seconds of work: of this process, and of the compilers that it started and that have ended."""
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


if __name__ == "__main__":
    print(json.dumps(child(json.loads(sys.argv[1]))), flush=True)
