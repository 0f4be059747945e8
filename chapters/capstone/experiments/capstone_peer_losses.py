"""The recording ``capstone_peer_losses``: do the peer's ways train as it does? And Liger's kernels in eager mode.

Losses of the grammar's sentences, as the ladder's are, of each way with three seeds of weights and order. And the peer
eager, compiled, and eager with Liger's kernels take turns.
"""

from __future__ import annotations

import functools
import io
from collections.abc import Mapping
from contextlib import redirect_stdout
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from compile_lab._torch.dynamo import reset_dynamo

from ...registry import Progress
from ...shared import subjects
from .capstone import CURVE_LR, LENGTH, SEEDS, WARM_UP, LadderStudy, PeerStep, peer_module
from .capstone_peers import changed

CURVE_BATCH, CURVE_STEPS = {"cuda": 8, "cpu": 4}, {"cuda": 300, "cpu": 3}
BASE, LIGER = "peer, compiled", "peer, Liger, eager"
OWN = ("peer", BASE, LIGER)
"""What takes turns: Liger's kernels are kernels in eager mode, too."""
TRAINED = (BASE, "peer, float8", "peer, float8 by rows", LIGER)
BUDGET_S = 500.0


def record(
    device: str, progress: Progress = iter, *, peer: Path | None = None, budget_s: float = BUDGET_S
) -> dict[str, Any]:
    """Losses and times of each way, as plain JSON values; six minutes on an H200. peer: as of ``capstone_peers``.

    ``{"batch", "length", "rungs", "stopped"}`` as `capstone.record` has them, without the
    kernels, and ``{"curve_batch", "curve_lr", "warm_up", "curves": [{"name", "seed", "losses"}]}``. Nothing is measured
    without a peer.
    """
    study = LossesStudy(device, budget_s, peer_module(peer) if peer else None)
    for part in progress((study.build, study.judge, study.time, study.train) if peer else ()):
        part()
    reset_dynamo()
    return study.recording()


class LossesStudy(LadderStudy):
    """One run of the peer's ways."""

    peer: ModuleType

    def build(self) -> None:
        for name in OWN:
            about = {"does": name.removeprefix("peer, "), "by": "peer", "vocabulary": 50_304}
            self._built(name, about, functools.partial(self._step, name))

    def judge(self) -> None:
        """Liger's gradients beside those of the peer in float32, and the peer's own."""
        for name in ("peer", LIGER):
            self._peer_judged(name, **changed(name))

    def train(self) -> None:
        """Losses over the same batches; a way that is late is told."""
        self.steps.clear()
        model = subjects.capstone_model(50_304, self.device)
        many = [subjects.sentences(model, CURVE_BATCH[self.device], at) for at in range(CURVE_STEPS[self.device])]
        batches = [tuple(each[:, : LENGTH[self.device]].contiguous() for each in batch) for batch in many]
        for name in TRAINED:
            reset_dynamo()
            step = self.attempts.in_time(functools.partial(self._step, name), name=name, part="losses")
            for seed in SEEDS if step else ():
                curve = functools.partial(self._peers_curve, name, step, seed, batches)
                self.attempts.in_time(curve, name=name, part="losses")

    def recording(self) -> dict[str, Any]:
        (batch, length), rungs = self.batch[0].shape, [{"name": name, **row} for name, row in self.rows.items()]
        curves = {"curve_batch": CURVE_BATCH[self.device], "curve_lr": CURVE_LR, "warm_up": WARM_UP}
        timed = {"batch": batch, "length": length, "rungs": rungs, "stopped": self.attempts.stopped}
        return timed | curves | {"curves": self.curves}

    def _step(self, name: str) -> PeerStep:
        return PeerStep(self.peer, self.device, None if name in ("peer", LIGER) else {}, **changed(name))

    def _peers_curve(self, name: str, step: PeerStep, seed: int, batches: list[tuple[Tensor, ...]]) -> None:
        step.model.load_state_dict(self._weights(seed))
        step.optimizer.state.clear()
        losses = []
        for at in range(len(batches)):
            for group in step.optimizer.param_groups:
                group["lr"] = CURVE_LR * min(1.0, (at + 1) / WARM_UP)
            losses.append(step.step(*batches[(at + 100 * seed) % len(batches)]).clone())
        self.curves.append({"name": name, "seed": seed, "losses": [round(float(each), 5) for each in losses]})

    def _weights(self, seed: int) -> Mapping[str, Tensor]:
        torch.manual_seed(seed)
        with redirect_stdout(io.StringIO()):  # it says how many parameters it has
            return self.peer.GPT(self.peer.GPTConfig(dropout=0.0, bias=True)).to(self.device).state_dict()
