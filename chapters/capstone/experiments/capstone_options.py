"""The recording ``capstone_options``: what else the compiler offers to the rung ``stream``, one by one and together.

Each way is an option of Inductor, or the same operations in another form that it makes other kernels of; none has a
kernel by hand. A peer's compiled step takes turns with them. What fails, or would begin too late, is told as
``stopped``.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from compile_lab._torch.dynamo import dynamo_config, reset_dynamo
from compile_lab.measure.judge import relative_error_together

from ...experiment import OUT_OF_TIME
from ...registry import Progress
from ...shared import subjects
from .. import forms
from .capstone import LadderStudy, peer_module


@dataclass(frozen=True)
class Way:
    """One change: what it does, the milliseconds of a step that it was predicted to add before it ran on the H200, the
    options of Inductor, and what `training_loss` is given instead of its own. ``chunks``: of the head. ``weights``:
    what the loss reads instead of the weights."""

    does: str
    predicted_ms: float
    options: Mapping[str, Any] = field(default_factory=dict)
    forms: Mapping[str, Any] = field(default_factory=dict)
    chunks: int = 4
    weights: Callable[[Mapping[str, Tensor]], Mapping[str, Tensor]] | None = None


CHEAP, COMBO = {"use_fast_math": True}, {"combo_kernels": True}
GELU, HEAD, APART = {"gelu": forms.gelu_by_sigmoid}, {"head": forms.LeanHead}, {"joined": False}
ALL = GELU | HEAD | APART
TUNED, TUNING = "together, tuned", CHEAP | {"coordinate_descent_tuning": True}
WAYS = {
    "stream": Way("the ladder's rung: the residual stream in bf16", 0.0),
    "exponentials": Way("`use_fast_math`: an exponential is two instructions", -0.6, CHEAP),
    "GELU": Way("by a sigmoid instead of a tanh", -0.6, forms=GELU),
    "one piece": Way("the head in one chunk instead of four", -0.5, chunks=1),
    "lean loss": Way("maximum and sum in one pass; no search for the target", -0.5, forms=HEAD),
    "q, k, v": Way("by a matmul each: no copy puts their gradients together", -0.2, forms=APART),
    "folded": Way("norms and the biases after them become part of the matrices", -1.6, weights=forms.folded),
    "combo": Way("`combo_kernels`: small kernels share a launch", 0.0, COMBO),
    "FlexAttention": Way("Inductor's own attention instead of cuDNN's", 3.0),
    "together": Way("the first seven", -4.0, CHEAP | COMBO, ALL, 1, forms.folded),
    TUNED: Way("`coordinate_descent_tuning` instead of `combo_kernels`", -4.8, TUNING, ALL, 1, forms.folded),
}
"""Predicted from instructions and bytes, by the rates of the recording ``capstone``; lines that were tried before the
recording was made keep what was predicted before that."""
TUNE_BY_S = 330.0
"""Tuning takes minutes: it is begun so soon, or not at all."""
PARTS = {"cuda": 8, "cpu": 1}
"""Pieces of the batch whose float32 gradients are added up, since all at once they take 40 GB."""


def record(
    device: str, progress: Progress = iter, *, peer: Path | None = None, tune_by_s: float = TUNE_BY_S
) -> dict[str, Any]:
    """Times, memory, kernels and gradients of each way, as plain JSON values; eight minutes, three of them to tune.

    peer: as of the recording ``capstone``; its step, compiled, is what ratios are taken of.

    ``{"batch", "length", "layers", "dim", "heads", "rungs", "stopped"}`` as `capstone.record` has them; of each rung
    also "predicted_ms", how much longer than ``stream``'s its step was said to be before it ran. "gradient_error" is
    that of the compiled step, over the whole batch.
    """
    study = OptionsStudy(device, tune_by_s, peer_module(peer) if peer else None)
    with dynamo_config.patch(recompile_limit=64):  # the ways share the code of one loss
        for part in progress((study.build, study.tune, study.judge, study.time, study.profile)):
            part()
    reset_dynamo()
    return study.recording()


class OptionsStudy(LadderStudy):
    """One run of the ways and of a peer."""

    def __init__(self, device: str, tune_by_s: float, peer: Any) -> None:
        super().__init__(device, float("inf"), peer)
        self.tune_until = time.monotonic() + tune_by_s

    def build(self) -> None:
        self._peer_compiled()
        for name in WAYS:
            if name != TUNED:
                self._way(name)

    def tune(self) -> None:
        if time.monotonic() > self.tune_until:
            self.attempts.stop(OUT_OF_TIME, name=TUNED, part="build")
        else:
            self._way(TUNED)

    def judge(self) -> None:
        """Gradients of each way as it runs, at the first weights, beside float32's."""
        weights = dict(self._model().named_parameters())
        exact = self._exact()
        for name in WAYS:
            if name in self.steps:
                judged = functools.partial(self._error, self.steps[name], weights, exact)
                self.rows[name]["gradient_error"] = self._tried(name, "gradients", judged)

    def recording(self) -> dict[str, Any]:
        config = self._model().config
        batch, length = self.batch[0].shape
        sizes = {"batch": batch, "length": length, "layers": config.layers, "dim": config.dim, "heads": config.heads}
        found = {"rungs": [{"name": name, **row} for name, row in self.rows.items()], "stopped": self.attempts.stopped}
        return sizes | found

    def _way(self, name: str) -> None:
        about = {"does": WAYS[name].does, "by": "compiler", "vocabulary": 50_304}
        about |= {"predicted_ms": WAYS[name].predicted_ms}
        self._built(name, about, lambda: step_of(name, self._model(), self.batch[0].shape[1], self.device))

    def _model(self) -> Any:
        return self._fresh_model(subjects.capstone_rungs()["stream"])

    def _exact(self) -> dict[str, Tensor]:
        """float32's gradients of the whole batch."""
        parts = PARTS[self.device]
        model, total = self._model(), dict[str, Tensor]()
        for some in zip(*(each.chunk(parts) for each in self.batch), strict=True):
            for name, each in subjects.capstone_exact(model, *some)[1].items():
                total[name] = total.get(name, 0) + each / parts
        return total

    def _error(self, step: Any, weights: Mapping[str, Tensor], exact: Mapping[str, Tensor]) -> float:
        step.restart(weights)
        return relative_error_together(step.gradients(*self.batch, compiled=True)[1], exact)


def step_of(name: str, model: subjects.MiniGPT, length: int, device: str) -> Any:
    """A way's step of the ladder's model; sequences are as long as `length` says."""
    way = WAYS[name]
    own = dict(way.forms)
    if name == "FlexAttention":
        own["attention"] = forms.flexible_attention(length, device)
    step = subjects.capstone_stream(model, chunks=way.chunks, options=way.options, **own)
    return _of_changed_weights(step, way.weights, way.options) if way.weights else step


def _of_changed_weights(step: Any, changed: Callable[..., Mapping[str, Tensor]], options: Mapping[str, Any]) -> Any:
    """The step, its loss of what is made of the weights."""
    loss_of = step.loss_of
    step.loss_of = lambda weights, *batch: loss_of(changed(weights), *batch)
    step.run = torch.compile(step.loss_of, fullgraph=True, dynamic=False, options=dict(options) or None)
    return step
