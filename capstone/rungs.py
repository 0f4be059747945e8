"""The ladder: each rung is the one before it and one thing more. ``RUNGS[name].made(model)`` is a training step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from mini_model.model import MiniGPT

from .hand.fp8 import Fp8Step
from .hand.step import HEAD, LINEARS, HandStep
from .steps import FunctionStep, ModuleStep, TrainingStep

WORDS, PADDED = 50_257, 50_304
"""GPT-2's vocabulary, and the next multiple of 64, with which rows of logits begin at round addresses."""
CHUNKS = 4


@dataclass(frozen=True)
class Rung:
    """One change: what it does, who does it, and to which vocabulary.

    by: "eager", torch as it comes; "compiler"; or "hand", what no compiler here writes.

    >>> from capstone.rungs import RUNGS
    >>> RUNGS["stream"].does, RUNGS["stream"].by
    ('the residual stream in bf16', 'compiler')
    >>> RUNGS["first"].vocabulary, RUNGS["stream"].vocabulary
    (50257, 50304)
    """

    does: str
    by: str
    made: Callable[..., TrainingStep]
    """Of the model, the batch and the length; by hand also of ``memory``, which captured steps share."""
    vocabulary: int = PADDED


def _module(**options: bool) -> Callable[[MiniGPT, int, int], TrainingStep]:
    return lambda model, batch, length: ModuleStep(model, **options)


def _function(**options: Any) -> Callable[[MiniGPT, int, int], TrainingStep]:
    return lambda model, batch, length: FunctionStep(model, **options)


def _by_hand(kind: Callable[..., TrainingStep], **options: Any) -> Callable[..., TrainingStep]:
    """By torch's own matmuls, if nothing else is asked for."""
    options = {"tuned": False} | options
    return lambda model, batch, length, **more: kind(model, batch, length, **options | more)


def _fp8(**options: Any) -> Callable[..., TrainingStep]:
    return _by_hand(Fp8Step, gradients_in=torch.float8_e4m3fn, headroom=2.0, **options)


BF16 = torch.bfloat16
RUNGS: dict[str, Rung] = {
    "first": Rung(
        "float32, one kernel an operation, one update a tensor, the loss read at every step",
        "eager",
        _module(tensor_cores=False, autocast=False, fused=False, waits=True),
        WORDS,
    ),
    "tf32": Rung(
        "matmuls on tensor cores, inputs rounded to 10 bits of mantissa",
        "eager",
        _module(autocast=False, fused=False, waits=True),
        WORDS,
    ),
    "bf16": Rung("matmuls and attention in bf16, by autocast", "eager", _module(fused=False, waits=True), WORDS),
    "fused": Rung("a fused AdamW, and the loss stays on the GPU", "eager", _module(), WORDS),
    "compile": Rung("torch.compile: model and loss as one graph", "compiler", _module(compiled=True), WORDS),
    "padded": Rung("47 words that nobody uses, so that rows of logits are aligned", "eager", _module(compiled=True)),
    "head": Rung("logits become their own gradient, a quarter at a time", "compiler", _function(chunks=CHUNKS)),
    "flat": Rung(
        "bf16 copies of the weights, written by an AdamW over flat buffers",
        "compiler",
        _function(chunks=CHUNKS, flat=True),
    ),
    "stream": Rung("the residual stream in bf16", "compiler", _function(chunks=CHUNKS, flat=True, stream=BF16)),
    "graph": Rung(
        "the step as one CUDA graph", "compiler", _function(chunks=CHUNKS, flat=True, stream=BF16, graph=True)
    ),
    "hand": Rung(
        "kernels ordered by hand, and everything between the matmuls written in Triton",
        "hand",
        _by_hand(HandStep),
    ),
    "fp8": Rung(
        "the blocks' matmuls in fp8, except attention's in the forward", "hand", _fp8(forward=("mlp.up", "mlp.down"))
    ),
    "fp8 + qkv": Rung(
        "the forward's query, key and value projection in fp8, too",
        "hand",
        _fp8(forward=("attention.qkv", "mlp.up", "mlp.down")),
    ),
    "all fp8": Rung("attention's output projection in fp8, too", "hand", _fp8()),
    "tuned": Rung(
        "in bf16 again: each matmul by the fastest of cuBLASLt's kernels", "hand", _by_hand(HandStep, tuned=None)
    ),
    "fp8, short sums": Rung(
        "all fp8, tuned, with short sums in the gradients of inputs, too",
        "hand",
        _fp8(tuned=None, fast=("forward", "input_gradient")),
    ),
    "fp8 + head": Rung(  # over nine seeds its loss is higher: the recording `capstone_head_seeds`
        "all fp8, tuned, with short sums, and the head's two gradients in fp8",
        "hand",
        _fp8(
            tuned=None,
            fast=("forward", "input_gradient"),
            input_gradient=(*LINEARS, HEAD),
            weight_gradient=(*LINEARS, HEAD),
        ),
    ),
}
