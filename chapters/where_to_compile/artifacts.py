"""Compile on one rank, load on another: what does the second find in the first one's artifacts?"""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor

from compile_lab._torch.dynamo import dynamo_utils
from compile_lab._torch.inductor import cache_folder
from compile_lab.recordings import RecordedRow

LAYERS = "autograd_cache", "fxgraph_cache"
"""The two caches above one another, as torch's counters call them."""
PROGRAMS: dict[str, Callable[[Tensor], Tensor]] = {
    "the same code on both ranks": lambda x: (x.sin() * 2).relu().sum(),
    "`dist.get_rank()` in the code": lambda x: (x.sin() * (dist.get_rank() + 2)).relu().sum(),
}


@dataclass(frozen=True)
class Loaded(RecordedRow):
    """What a rank found that had loaded the other one's artifacts."""

    program: str
    nbytes: int
    hits: int
    misses: int
    right: bool


def on_rank() -> list[Loaded]:
    """Rank 0 compiles each program into an empty cache and sends its artifacts; the others load them into theirs."""
    return [_loaded(name, program) for name, program in PROGRAMS.items()]


def _loaded(name: str, program: Callable[[Tensor], Tensor]) -> Loaded:
    sent: list[bytes] = [b""]
    with tempfile.TemporaryDirectory() as folder, cache_folder(Path(folder)):
        torch.compiler.reset()
        if dist.get_rank() == 0:
            right = _step(program)
            sent = [(torch.compiler.save_cache_artifacts() or (b"",))[0]]
        dist.broadcast_object_list(sent)
        dynamo_utils.counters.clear()
        if dist.get_rank():
            torch.compiler.load_cache_artifacts(sent[0])
            right = _step(program)
        hits, misses = (
            sum(counter[f"{layer}_{answer}"] for layer in LAYERS for counter in dynamo_utils.counters.values())
            for answer in ("hit", "miss")
        )
        dist.barrier()
    return Loaded(name, len(sent[0]), hits, misses, right)


def _step(program: Callable[[Tensor], Tensor]) -> bool:
    """Forward and backward, compiled: is the gradient that of eager mode?"""
    grads = []
    for call in (program, torch.compile(program)):
        x = torch.linspace(-1, 1, 64, requires_grad=True)
        call(x).backward()
        assert x.grad is not None, "backward has put it there"
        grads.append(x.grad)
    return torch.allclose(grads[0], grads[1])
