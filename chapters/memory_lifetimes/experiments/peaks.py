"""Predicted and measured peaks of the book's models: eager, partitioned, compiled. On a GPU, what is recorded."""

from collections.abc import Callable
from typing import Any

import torch

from compile_lab import aot
from compile_lab._torch.dispatcher import fake_tensors
from compile_lab._torch.dynamo import reset_dynamo
from compile_lab.inductor.generated import GeneratedCode
from compile_lab.inductor.lowering import collecting
from compile_lab.memory.compiled import compiled_lifetimes
from compile_lab.memory.eager import eager_lifetimes
from compile_lab.memory.graphs import graph_lifetimes
from compile_lab.memory.ledger import Lifetimes
from compile_lab.memory.measured import Peak, measure_step
from compile_lab.recordings import here

from ...registry import Progress
from ...shared import subjects

Row = dict[str, Any]

BATCHES = {"cuda": {"mini": 512, "gpt2-124m": 8}, "cpu": {"mini": 2}}
"""Sequences in a batch, each as long as the model's context."""
PRECISIONS = ("fp32", "bf16 autocast")


def record(device: str, progress: Progress = iter) -> dict[str, Any]:
    """Rows ``{"model", "batch", "precision", "mode", "predicted", "measured", "allocated_bytes", "at"}``.

    ``predicted`` and ``measured`` hold bytes above what was there before the step: ``peak``, ``held`` after the forward
    and ``left`` when the gradients are there. ``allocated_bytes`` is the peak as the caching allocator counts it, with
    sizes rounded up (None on a CPU); ``at`` says where both peaks are.
    """
    cases = [(name, precision, mode) for name in BATCHES[device] for precision in PRECISIONS for mode in MODES]
    return {"rows": [_row(device, *case) for case in progress(cases)]}


def _row(device: str, name: str, precision: str, mode: str) -> Row:
    def subject() -> tuple[torch.nn.Module, Callable[[], torch.Tensor]]:
        model = subjects.minigpt(name, device)
        inputs = subjects.tokens(model, BATCHES[device][name])

        def forward() -> torch.Tensor:
            with torch.autocast(device, torch.bfloat16, enabled=precision != "fp32"):
                return model(*inputs)

        return model, forward

    reset_dynamo()
    predicted, measured = MODES[mode](subject)
    bytes_of = ("peak", "held", "left")
    return {
        "model": name,
        "batch": BATCHES[device][name],
        "precision": precision,
        "mode": mode,
        "predicted": {each: getattr(predicted, f"{each}_bytes") for each in bytes_of},
        "measured": {each: getattr(measured, f"{each}_bytes") for each in bytes_of},
        "allocated_bytes": measured.allocated_nbytes,
        "at": {"predicted": predicted.timeline[predicted.peak_at].name, "measured": measured.at},
    }


Subject = Callable[[], tuple[torch.nn.Module, Callable[[], torch.Tensor]]]


def _eager(subject: Subject) -> tuple[Lifetimes, Peak]:
    with fake_tensors():
        model, forward = subject()
        predicted = eager_lifetimes(lambda: _trained(forward), model)
    model, forward = subject()
    return predicted, _measured(model, forward)


def _partitioned(partitioner: str, decompositions: str) -> Callable[[Subject], tuple[Lifetimes, Peak]]:
    def run(subject: Subject) -> tuple[Lifetimes, Peak]:
        model, forward = subject()
        predicted = graph_lifetimes(
            aot.training_graphs(forward, partitioner=partitioner, decompositions=decompositions)
        )
        compiled = aot.as_graphs(forward, partitioner=partitioner, decompositions=decompositions)
        return predicted, _measured(model, compiled, compiled=True)

    return run


def _inductor(subject: Subject) -> tuple[Lifetimes, Peak]:
    model, forward = subject()
    with collecting() as graphs:
        measured = _measured(model, torch.compile(forward), compiled=True)
    code = GeneratedCode(tuple(graphs), None, here("chapters.memory_lifetimes.experiments.peaks"))
    return compiled_lifetimes(code), measured


MODES: dict[str, Callable[[Subject], tuple[Lifetimes, Peak]]] = {
    "eager": _eager,
    "default partition": _partitioned("default", "none"),
    "min-cut partition": _partitioned("min_cut", "inductor"),
    "Inductor": _inductor,
}
"""How the step runs, and how its peak is predicted: from fake tensors, from its graphs, from its generated code."""


def _measured(model: torch.nn.Module, forward: Callable[[], torch.Tensor], compiled: bool = False) -> Peak:
    measured = measure_step(forward, lambda: model.zero_grad(set_to_none=True))
    if compiled:
        measured.require_compiled()
    return measured


def _trained(forward: Callable[[], torch.Tensor]) -> torch.Tensor:
    loss = forward()
    loss.backward()
    return loss
