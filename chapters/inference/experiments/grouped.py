"""A mixture of experts on this device: a loop over experts against one grouped matmul, and what compiling adds.

All ways of one size are timed in turns, so that what changes with time changes all of them. The rate of one large
matmul of the same run is what a rate is compared with.
"""

import functools
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from compile_lab._torch.dynamo import reset_dynamo
from compile_lab._torch.grouped import few_tilings
from compile_lab._torch.inductor import inductor_config
from compile_lab._torch.packages import package_sources, packaged, unpacked
from compile_lab.measure.timing import durations_ms, summary_ms, sustained_ms

from ...experiment import Attempts
from ...registry import Progress
from ..grouped import MOST_TOKENS, ExpertLayer, judged_by_float64, product_calls, subject

BUDGET_S = 110.0
TOKENS = {"cuda": (256, 1024, 4096, 16_384), "cpu": (16, 32)}
EXPERTS = {"cuda": (8, 64), "cpu": (2,)}
SHAPE = {"cuda": (2048, 4096), "cpu": (32, 64)}
"""Width and hidden width: 64 experts of them are 2 GiB of bf16."""
MATRIX = {"cuda": 8192, "cpu": 64}
ROUNDS, IN_A_ROW = 7, 3
TILINGS = 5
SEARCHED = {"cuda": 4096, "cpu": 16}
"""The tokens for which max-autotune searches, with the fewest experts only."""


def record(device: str, progress: Progress = iter, *, budget_s: float = BUDGET_S) -> dict[str, Any]:
    """Milliseconds, rates and errors of each way, as plain JSON values; two minutes on a large GPU.

    ``{"width", "hidden", "matmul_tflop_per_s", "tilings", "rows": [{"way", "experts", "tokens", "median_ms",
    "low_ms", "high_ms", "tflop_per_s", "error"}], "stopped": [{"way", "experts", "tokens", "why"}], "calls":
    {way: [name]}}``. The work counted is that of the two matmuls, 4 · tokens · width · hidden operations; the time is
    the whole layer's, routing included. What fails, or would begin after ``budget_s`` seconds, stands in ``stopped``.
    """
    width, hidden = SHAPE[device]
    study = Study(device, width, hidden, Attempts(budget_s, "why"))
    for experts in progress([*EXPERTS[device], "max-autotune", "AOTInductor"]):
        if isinstance(experts, int):
            study.prepare(experts, ("loop", "grouped", "grouped, compiled"))
            study.measure(experts, TOKENS[device])
        else:
            few = EXPERTS[device][0]
            study.prepare(few, (experts,))
            study.measure(few, (SEARCHED[device],) if experts == "max-autotune" else TOKENS[device])
    n = MATRIX[device]
    rate = study.attempts.tried(lambda: _matrix_rate(device, n), way="a matmul", experts=0, tokens=n)
    return {
        "width": width,
        "hidden": hidden,
        "matmul_tflop_per_s": rate,
        "tilings": TILINGS,
        "rows": study.rows,
        "stopped": study.attempts.stopped,
        "calls": study.calls,
    }


class Study:
    """One run: the ways that are ready, the rows measured, and what was stopped."""

    def __init__(self, device: str, width: int, hidden: int, attempts: Attempts) -> None:
        self.device, self.width, self.hidden, self.attempts = device, width, hidden, attempts
        self.ready: dict[str, Callable[[Tensor], Tensor]] = {}
        self.rows: list[dict[str, Any]] = []
        self.calls: dict[str, list[str]] = {}

    def prepare(self, experts: int, ways: Iterable[str]) -> None:
        """Make the ways for so many experts; a way that cannot be made is told."""
        reset_dynamo()
        self.ready = {}
        self.model, _ = subject(self.width, self.hidden, experts, 2, "grouped", self.device)
        for way in ways:
            made = self.attempts.in_time(functools.partial(self._made, way), way=way, experts=experts, tokens=0)
            if made is not None:
                self.ready[way] = made

    def measure(self, experts: int, tokens: Iterable[int]) -> None:
        """All that is ready, in turns, at each number of tokens."""
        for count in tokens:
            torch.manual_seed(1)
            x = torch.randn(count, self.width, device=self.device).to(torch.bfloat16)
            errors = {}
            for way, fn in self.ready.items():
                judge = functools.partial(self._error, fn, x)
                errors[way] = self.attempts.in_time(judge, way=way, experts=experts, tokens=count)
            taken: dict[str, list[float]] = {way: [] for way, error in errors.items() if error is not None}
            for way in [way for _ in range(ROUNDS) for way in taken]:
                if time.monotonic() < self.attempts.until + 10:  # a round is short; what is begun is finished
                    with torch.no_grad():
                        call = functools.partial(self.ready[way], x)
                        taken[way] += durations_ms(call, torch.device(self.device), IN_A_ROW)
            self.rows += [self._row(way, experts, count, times, errors[way]) for way, times in taken.items() if times]

    def _made(self, way: str) -> Callable[[Tensor], Tensor]:
        if way == "AOTInductor":
            return self._packaged()
        model = self._like("loop") if way == "loop" else self.model
        if way == "max-autotune":
            return torch.compile(model, mode="max-autotune-no-cudagraphs", dynamic=False)
        return torch.compile(model, dynamic=True) if way.endswith("compiled") else model

    def _like(self, way: str) -> ExpertLayer:
        """A layer that shares the weights of the one at hand."""
        twin = ExpertLayer(16, 16, self.model.experts, way)
        twin.router, twin.up, twin.down = self.model.router, self.model.up, self.model.down
        return twin.eval()

    def _packaged(self) -> Callable[[Tensor], Tensor]:
        x = torch.randn(64, self.width, device=self.device).to(torch.bfloat16)
        tokens = torch.export.Dim("tokens", min=2, max=MOST_TOKENS)
        with tempfile.TemporaryDirectory() as folder, torch.no_grad():
            exported = torch.export.export(self.model, (x,), dynamic_shapes=({0: tokens},))
            file = packaged(exported, Path(folder) / "experts.pt2")
            self.calls["AOTInductor"] = list(product_calls(package_sources(file)))
            return unpacked(file)

    def _error(self, fn: Callable[[Tensor], Tensor], x: Tensor) -> float:
        with torch.no_grad(), few_tilings(TILINGS), inductor_config.patch(autotune_in_subproc=False):
            return judged_by_float64(self.model, x, fn(x))

    def _row(self, way: str, experts: int, tokens: int, times: list[float], error: float) -> dict[str, Any]:
        rate = 4 * tokens * self.width * self.hidden / statistics.median(times) / 1e9
        where = {"way": way, "experts": experts, "tokens": tokens}
        return {**where, **summary_ms(times), "tflop_per_s": rate, "error": error}


def _matrix_rate(device: str, n: int) -> float:
    """TFLOP/s of one n × n by n × n matmul in bf16, on a device at work."""
    a, b = (torch.randn(n, n, device=device).to(torch.bfloat16) for _ in range(2))
    return 2 * n**3 / statistics.median(sustained_ms(lambda: a @ b, torch.device(device))) / 1e9
