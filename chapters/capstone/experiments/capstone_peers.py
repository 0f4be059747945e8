"""The recording ``capstone_peers``: what else people do to GPT-2's step, beside the step by hand, in one run.

A peer's model (nanoGPT's, or one of its form) eager, compiled, with every kernel tuned, in torchao's float8 (scaled by
tensor and by row), with Liger's kernels, and with cuDNN's attention or FlashAttention-3. What fails, or is not
installed, is told as ``stopped``; the rest of the recording stands.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import attention

from compile_lab._torch.dynamo import reset_dynamo

from ...registry import Progress
from ...shared import subjects
from .capstone import LadderStudy, PeerStep, peer_module
from .capstone_options import step_of

TUNED = {
    "max_autotune": True,
    "coordinate_descent_tuning": True,
    "max_autotune_prune_choices_based_on_shared_mem": True,
}
"""What ``mode="max-autotune-no-cudagraphs"`` sets, without kernels that this card has no shared memory for."""
TOGETHER = "together"
"""The best by the compiler that needs no minutes of tuning, of the recording ``capstone_options``."""
OWN = ("padded", TOGETHER, "hand", "tuned", "all fp8", "fp8, short sums", "fp8 + head")
KEPT = ("batch", "length", "layers", "dim", "heads", "ceilings", "attention", "rungs", "stopped")
"""Of what a study of the ladder tells."""
BUDGET_S = 900.0


def record(
    device: str, progress: Progress = iter, *, peer: Path | None = None, budget_s: float = BUDGET_S
) -> dict[str, Any]:
    """Times, memory and kernels of each way, as plain JSON values; a quarter of an hour, half of which tunes kernels.

    peer: as of the recording ``capstone``; without it only the book's own rungs are measured.

    ``{"batch", "length", "layers", "dim", "heads", "ceilings", "attention", "rungs", "stopped"}`` as `capstone.record`
    has them, and of each rung "losses": its first ones. All but the last one built take turns from the start; that one
    is tuned last, and is not begun when the time given is over.
    """
    study = PeersStudy(device, budget_s, peer_module(peer) if peer else None)
    for part in progress((study.build, study.judge, study.tune, study.time, study.profile)):
        part()
    reset_dynamo()
    return study.recording()


class PeersStudy(LadderStudy):
    """One run of the peers and of the book's own last rungs."""

    def build(self) -> None:
        for name, (does, make) in self._peers().items():
            self._made(name, does, "peer", make)
        for name, rung in self._own().items():
            self._made(name, rung.does, rung.by, functools.partial(self._step_of, rung))

    def tune(self) -> None:
        """Every kernel tuned: it takes minutes, so it comes last."""
        name, does = "peer, max-autotune", "compiled, each matmul and each fused kernel the fastest of those tried"
        make = functools.partial(self._peer_step, TUNED)
        if self.peer:
            self.attempts.in_time(lambda: self._made(name, does, "peer", make), name=name, part="build")

    def recording(self) -> dict[str, Any]:
        told = super().recording()
        return {key: told[key] for key in KEPT}

    def _own(self) -> dict[str, Any]:
        rungs = subjects.capstone_rungs()

        def together(model: subjects.MiniGPT, batch: int, length: int) -> Any:
            return step_of(TOGETHER, model, length, self.device)

        best = replace(rungs["stream"], does="all that the compiler offers to the rung `stream`", made=together)
        return {name: best if name == TOGETHER else rungs[name] for name in OWN}

    def _peers(self) -> dict[str, tuple[str, Callable[[], Any]]]:
        if not self.peer:
            return {}
        step = functools.partial(PeerStep, self.peer, self.device)
        cudnn = functools.partial(attention.sdpa_kernel, attention.SDPBackend.CUDNN_ATTENTION)
        return {
            "peer": ("another GPT-2, as it comes", step),
            "peer, compiled": ("the same, compiled", lambda: step({})),
            **{name: (does, functools.partial(step, {}, change)) for name, (does, change) in CHANGES.items()},
            "peer, cuDNN": ("compiled, with cuDNN's attention", lambda: WithAttention(step({}), cudnn)),
            "peer, FlashAttention-3": ("compiled, with FA3's attention", lambda: WithAttention(step({}), _flash3)),
        }

    def _made(self, name: str, does: str, by: str, make: Callable[[], Any]) -> None:
        losses: list[Tensor] = []

        def made() -> Any:
            step = make()
            losses.append(step.step(*self.batch).clone())
            return step

        vocabulary = subjects.capstone_rungs()["padded"].vocabulary
        self._built(name, {"does": does, "by": by, "vocabulary": vocabulary}, made)
        self.rows[name]["losses"] = [round(float(each), 5) for each in losses]

    def judge(self) -> None:
        """Gradients of the book's own rungs, and of the peer as it comes and in float8, beside float32's."""
        self._judged(self._own())
        for name in ("peer", *CHANGES):
            if name in self.steps:
                self._peer_judged(name, **changed(name))


def _in_float8(recipe: str, model: nn.Module) -> nn.Module:
    """torchao's float8 training in the blocks' linears; the head stays in bf16. recipe: what shares a scale."""
    from torchao.float8 import Float8LinearConfig, convert_to_float8_training

    inside = re.compile(r"\.h\.\d+\.|blocks\.\d+\.")
    return convert_to_float8_training(
        model,
        config=Float8LinearConfig.from_recipe_name(recipe),
        module_filter_fn=lambda module, name: bool(inside.search(name)),
    )


def _with_liger(model: Any) -> nn.Module:
    """A model of nanoGPT's form with Liger's layer norms, and with the loss from the last hidden states in one kernel a
    chunk, so that no logits are kept. Of its other kernels none has a place in a GPT-2.

    The loss stays out of the compiled graphs: to trace its ``addmm`` with ``out_dtype`` and ``out`` is a TypeError in
    torch's decomposition (torch 2.11, liger-kernel 0.8.5).
    """
    from liger_kernel.transformers import LigerFusedLinearCrossEntropyLoss, LigerLayerNorm

    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if type(child).__name__ == "LayerNorm":
                norm = LigerLayerNorm(len(child.weight), eps=1e-5)
                norm.weight, norm.bias = child.weight, child.bias
                setattr(parent, name, norm)
    fused = LigerFusedLinearCrossEntropyLoss(ignore_index=-1)
    parts = model.transformer

    @torch.compiler.disable
    def loss_of(*given: Tensor) -> Tensor:
        return fused(*given)

    def forward(tokens: Tensor, targets: Tensor) -> tuple[None, Tensor]:
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = parts.drop(parts.wte(tokens) + parts.wpe(places))
        for block in parts.h:
            x = block(x)
        return None, loss_of(model.lm_head.weight, parts.ln_f(x).flatten(0, 1), targets.flatten())

    model.forward = forward
    return model


CHANGES: Mapping[str, tuple[str, Callable[[nn.Module], nn.Module]]] = {
    "peer, float8": ("compiled, with torchao's float8 in the blocks", functools.partial(_in_float8, "tensorwise")),
    "peer, float8 by rows": ("the same, each row with a scale of its own", functools.partial(_in_float8, "rowwise")),
    "peer, Liger": ("compiled, with Liger's layer norm; its head and loss are not compiled", _with_liger),
}
"""What is done to the peer's model before it is compiled."""


def changed(name: str) -> dict[str, Callable[[nn.Module], nn.Module]]:
    """What `PeerStep` is given so that it becomes the step of this name, compiled or, as "NAME, eager", not."""
    name = name.removesuffix(", eager")
    return {"change": CHANGES[name][1]} if name in CHANGES else {}


class WithAttention:
    """A step whose fused attention is somebody's, chosen by a context that is entered while it runs.

    It raises where the machine has none.
    """

    def __init__(self, step: PeerStep, chosen: Callable[[], AbstractContextManager[None]]) -> None:
        self.inner, self.chosen = step, chosen

    def step(self, tokens: Tensor, targets: Tensor) -> Tensor:
        with self.chosen():
            return self.inner.step(tokens, targets)


@contextmanager
def _flash3() -> Iterator[None]:
    attention.activate_flash_attention_impl("FA3")
    try:
        with attention.sdpa_kernel(attention.SDPBackend.FLASH_ATTENTION):
            yield
    finally:
        attention.restore_flash_attention_impl()
