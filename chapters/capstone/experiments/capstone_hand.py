"""The recording ``capstone_hand``: what more a schedule by hand can have of its matmuls, one change at a time.

Each change was predicted from bytes and operations before it ran. All take turns with the ladder's last rungs and with
a peer's compiled step. What fails is told as ``stopped``.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ...registry import Progress
from ...shared import subjects
from .capstone import LadderStudy, peer_module


@dataclass(frozen=True)
class Change:
    """What a step does otherwise than the one that it is compared with, and how many milliseconds longer it was
    predicted to take; of which rung it is made, and with which options."""

    does: str
    against: str
    predicted_ms: float
    options: Mapping[str, Any] = field(default_factory=dict)
    rung: str = "hand"


TUNED = {"tuned": True}
WITH_HEAD = ("attention.qkv", "attention.out", "mlp.up", "mlp.down", "head")
BACK = {"input_gradient": WITH_HEAD, "weight_gradient": WITH_HEAD}
GELU, STREAM = {"epilogues": ("gelu",)}, {"epilogues": ("stream",)}
CHANGES = {
    "hand": Change("the ladder's rung", "hand", 0.0),
    "tuned": Change("each matmul by the fastest of cuBLASLt's kernels", "hand", -0.8, TUNED),
    "gelu": Change("GELU in its matmul", "tuned", -0.5, TUNED | GELU),
    "gelu backward": Change("GELU's gradient, too", "gelu", -1.0, TUNED | {"epilogues": ("gelu", "gelu backward")}),
    "stream": Change("the branch added in its matmul", "tuned", -0.3, TUNED | STREAM),
    "all fp8": Change("the ladder's rung", "all fp8", 0.0, rung="all fp8"),
    "fp8, tuned": Change("each matmul by the fastest", "all fp8", -0.8, TUNED, "all fp8"),
    "fp8, short sums": Change("short sums in inputs' gradients, too", "fp8, tuned", -0.4, rung="fp8, short sums"),
    "fp8, stream": Change("the branch added in its matmul", "fp8, tuned", -0.4, TUNED | STREAM, "all fp8"),
    "fp8, head back": Change("the head's two gradients in fp8", "fp8, tuned", -1.8, TUNED | BACK, "all fp8"),
    "fp8, head": Change("its logits, too", "fp8, head back", -1.6, TUNED | BACK | {"forward": WITH_HEAD}, "all fp8"),
    "fp8 + head": Change("tuned, short sums, the head's gradients", "all fp8", -3.0, rung="fp8 + head"),
}
"""Predicted from instructions and bytes, by the rates of the recording ``capstone``, before any of them ran."""
CURVES = (("hand", 0), ("tuned", 0), ("fp8 + head", 0))
KEPT = ("batch", "length", "layers", "dim", "heads", "ceilings", "verified", "attention", "rungs", "curves", "stopped")


def record(device: str, progress: Progress = iter, *, peer: Path | None = None) -> dict[str, Any]:
    """Times, memory, kernels, gradients and losses of each change, as plain JSON values; five minutes on an H200.

    peer: as of the recording ``capstone``; its step, compiled, is what ratios are taken of.

    What `capstone.record` gives, without its schedule of learning rates; of each rung also "beside", the one that it is
    compared with, and "predicted_ms". "matmuls": of each that was tried, its kernels' milliseconds, the heuristic's
    favourite first.
    """
    study = HandStudy(device, float("inf"), peer_module(peer) if peer else None)
    for part in progress((study.build, study.judge, study.time, study.profile, study.train)):
        part()
    return study.recording()


class HandStudy(LadderStudy):
    """One run of the changes and of a peer."""

    def build(self) -> None:
        self.verified = self._tried("hand", "verify", lambda: subjects.capstone_verified(self.device)) or {}
        self._peer_compiled()
        for name, change in CHANGES.items():
            about = {"does": change.does, "by": "hand", "vocabulary": 50_304}
            about |= {"beside": change.against, "predicted_ms": change.predicted_ms}
            make = functools.partial(self._made, change, *self.batch[0].shape, **self.memory)
            self._built(name, about, make)

    def judge(self) -> None:
        """Gradients at the first weights, beside float32's."""
        made = {name: functools.partial(self._of, change) for name, change in CHANGES.items()}
        rungs = {name: subjects.capstone_rungs()[change.rung] for name, change in CHANGES.items()}
        self._judged({name: replace(rung, made=made[name]) for name, rung in rungs.items()})

    def train(self) -> None:
        self._curves(CURVES)

    def recording(self) -> dict[str, Any]:
        found = super().recording()
        return {key: found[key] for key in KEPT} | {"matmuls": self._matmuls()}

    def _made(self, change: Change, batch: int, length: int, **more: Any) -> Any:
        return self._of(change, self._fresh_model(subjects.capstone_rungs()["hand"]), batch, length, **more)

    def _of(self, change: Change, model: Any, batch: int, length: int, **more: Any) -> Any:
        options = dict(change.options)
        if self.device == "cpu":  # whose matmuls are torch's
            options.pop("tuned", None)
        return subjects.capstone_rungs()[change.rung].made(model, batch, length, **options, **more)

    def _matmuls(self) -> list[dict[str, Any]]:
        plans = getattr(self.steps["tuned"].matmuls, "plans", {}) if "tuned" in self.steps else {}
        return [
            {"matmul": plan.name, "ms": [round(each, 5) for each in plan.tried_ms]}
            for plan in plans.values()
            if plan.tried_ms
        ]
