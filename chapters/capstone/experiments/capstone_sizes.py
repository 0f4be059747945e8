"""The recording ``capstone_sizes``: what the ladder's last rungs gain at other batches and with larger models.

At each size a peer's compiled step, the best by the compiler and the two by hand take turns. What each of them takes
is predicted before anything is measured, see `capstone_sizes_model`.
"""

from __future__ import annotations

import functools
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from compile_lab._torch.dynamo import reset_dynamo
from compile_lab.measure.timing import wait
from compile_lab.recordings import RecordedRow

from ...experiment import OUT_OF_TIME
from ...registry import Progress
from ...shared import capstone_view, subjects
from .capstone import LENGTH, _batch, peer_module
from .capstone_options import OptionsStudy, step_of
from .capstone_sizes_model import BY_HAND, RUNGS, VOCABULARY, Predicted, Size, dates, predicted

SIZES = {
    "cuda": [
        *(Size(12, 768, 12, batch) for batch in (4, 8, 16, 32, 64)),
        Size(24, 1024, 16, 16),
        Size(24, 1536, 24, 8),
        Size(36, 1280, 20, 8),
    ],
    "cpu": [Size(2, 96, 2, 2), Size(2, 192, 2, 2)],
}
"""GPT-2 124M at five batches; 350M; a model as large as GPT-2 774M, of a width that the kernels by hand take; 774M."""
WORDS = {"cuda": VOCABULARY, "cpu": 640}
ISSUED = 5
"""Steps of which is measured how long the program takes to launch them."""
BUDGET_S = 1200.0


@dataclass(frozen=True)
class SizeRow(RecordedRow):
    """A rung at one size: what was predicted, and, unless it was ``stopped``, what was measured.

    issued_ms: until the program has launched a step, from an idle GPU. families: milliseconds of the kernels of a step,
    profiled. loss: of the first step. On a CPU there are no kernels, and the prediction is of an H200.
    """

    size: Size
    rung: str
    predicted: Predicted
    stopped: str = ""
    median_ms: float | None = None
    low_ms: float | None = None
    high_ms: float | None = None
    samples: int = 0
    issued_ms: float | None = None
    families: dict[str, float] | None = None
    peak_nbytes: int | None = None
    loss: float | None = None
    clock_mhz: float | None = None
    power_w: float | None = None

    @property
    def kernels_ms(self) -> float | None:
        """The step's kernels together, without pauses."""
        return sum(self.families.values()) if self.families else None


def record(
    device: str,
    progress: Progress = iter,
    *,
    peer: Path | None = None,
    sizes: Sequence[Size] | None = None,
    budget_s: float = BUDGET_S,
) -> dict[str, Any]:
    """``{"length", "from": {recording: its date}, "notes": [], "rows": [SizeRow as JSON]}``; 20 minutes on an H200, of
    which most compile.

    peer: as of the recording ``capstone``; without it only the book's own rungs are measured. sizes: all of ``SIZES``.
    A size that would begin after the time given is told as stopped. An interrupt ends the measuring, and what was
    measured stays. Each size stands for itself, so those of another run may take its place; a note says so.
    """
    module, until = peer_module(peer) if peer else None, time.monotonic() + budget_s
    rows: list[SizeRow] = []
    for size in progress(SIZES[device] if sizes is None else sizes):
        interrupted = _measure(study := SizeStudy(device, module, size, until))
        until = 0.0 if interrupted else until
        rows += study.size_rows()
    return {"length": LENGTH[device], "from": dates(), "notes": [], "rows": [row.to_json() for row in rows]}


def _measure(study: SizeStudy) -> bool:
    """All that is measured at one size; whether it was interrupted."""
    try:
        for part in (study.build, study.time, study.issue, study.profile):
            part()
    except KeyboardInterrupt:
        return True
    finally:
        study.steps.clear()  # the next size needs their memory
        reset_dynamo()
    return False


class SizeStudy(OptionsStudy):
    """The rungs at one size, all alive at once."""

    def __init__(self, device: str, peer: ModuleType | None, size: Size, until: float) -> None:
        super().__init__(device, 0.0, peer and _of_size(peer, size))
        self.size, self.predicted, self.attempts.until = size, predicted(size), until
        self.batch = _batch(size.batch, LENGTH[device], device)
        self.issued: dict[str, float] = {}
        self.losses: dict[str, float] = {}

    def build(self) -> None:
        for name, make in self._makers().items():
            if self.attempts.late:
                self.attempts.stop(OUT_OF_TIME, name=name, part="build")
            else:
                self._built(name, {}, functools.partial(self._begun, name, make))

    def issue(self) -> None:
        """How long the program takes to launch a step, the GPU idle before."""
        for name, step in self.steps.items():
            self.issued[name] = self._tried(name, "issue", functools.partial(self._issued_ms, step))

    def size_rows(self) -> list[SizeRow]:
        why = self.attempts.by("name")
        return [self._row(name, why.get(name, "")) for name in RUNGS if name in self.rows or name in why]

    def _makers(self) -> dict[str, Callable[[], Any]]:
        batch, n = self.batch[0].shape
        makers: dict[str, Callable[[], Any]] = {"together": lambda: step_of("together", self._model(), n, self.device)}
        peers = {"peer, compiled": {}, "peer, CUDA graphs": {"triton.cudagraphs": True}} if self.peer else {}
        makers |= {name: functools.partial(self._peer_step, options) for name, options in peers.items()}
        return makers | subjects.capstone_by_hand(BY_HAND, self.device, batch, n, self._fresh_model)

    def _begun(self, name: str, make: Callable[[], Any]) -> Any:
        step = make()
        self.losses[name] = round(float(step.step(*self.batch)), 5)
        return step

    def _fresh_model(self, rung: Any) -> subjects.MiniGPT:
        words, length = WORDS[self.device], LENGTH[self.device]
        sizes = {"layers": self.size.layers, "dim": self.size.dim, "heads": self.size.heads, "context": length}
        return subjects.minigpt("gpt2-124m", self.device, words, **sizes)

    def _issued_ms(self, step: Any) -> float:
        times = []
        for _ in range(ISSUED):
            wait(self.device)
            begin = time.perf_counter()
            step.step(*self.batch)
            times.append(1e3 * (time.perf_counter() - begin))
        return round(statistics.median(times), 4)

    def _row(self, name: str, why: str) -> SizeRow:
        row = self.rows.get(name, {})
        if "median_ms" not in row:
            return SizeRow(self.size, name, self.predicted[name], why or "interrupted")
        timed = {key: row[key] for key in ("median_ms", "low_ms", "high_ms", "samples", "peak_nbytes")}
        if row.get("kernels"):
            timed["families"] = {of: round(ms, 4) for of, ms in capstone_view.families(row).items() if of != "rest"}
        for key in ("clock_mhz", "power_w"):
            timed[key] = statistics.median(row[key]) if row[key] else None
        return SizeRow(
            self.size, name, self.predicted[name], why, issued_ms=self.issued.get(name), loss=self.losses[name], **timed
        )


def _of_size(peer: ModuleType, size: Size) -> Any:
    """The peer's module, its configuration of that size; fields that it has under no name of nanoGPT's stay."""
    wanted = {"n_layer": size.layers, "n_head": size.heads, "n_embd": size.dim}
    changed = {name: value for name, value in wanted.items() if getattr(peer.GPTConfig, name, value) != value}
    return SimpleNamespace(GPT=peer.GPT, GPTConfig=functools.partial(peer.GPTConfig, **changed))
