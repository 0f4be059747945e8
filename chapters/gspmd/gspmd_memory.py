"""The same step's memory by two compilers: XLA's plan for its heap, and the lifetimes of AOTAutograd's graphs.

XLA says before it runs what one device needs. Arguments and outputs are counted apart; everything between is one heap,
`temporary`. Ours counts what is alive above the arguments, with the outputs in it. So both are told as ``above``: bytes
at the peak, besides the arguments.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from compile_lab.aot.training import training_graphs
from compile_lab.doors import door
from compile_lab.memory.graphs import graph_lifetimes, joint_lifetimes
from compile_lab.memory.ledger import Lifetimes

from .gspmd import AXIS, Memory, compiled_for, jax_here, memory_of, placed
from .gspmd_block import NAMES, loss, torch_loss, weights_of

PROGRAMS = ("forward", "joint", "backward")
SPARING = {"xla_cpu_scheduler_type": "CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED"}
"""The option that has XLA's pipeline for CPUs order operations so that little is alive at once."""


@dataclass(frozen=True)
class MemoryRow:
    """One program of a step: ``forward`` with what it keeps for the backward, ``backward``, or both as one (``joint``).

    ``ours`` is the most that is alive besides the arguments. ``kept`` is what goes from forward to backward: of XLA all
    that its forward hands over, its copies of arguments too; of ours the buffers besides the arguments; None for
    ``joint``, where nothing is handed over. ``spared`` is XLA's plan under `SPARING`.
    """

    program: str
    xla: Memory
    spared: Memory
    ours: int
    kept_by_xla: int | None
    kept_by_ours: int | None

    @property
    def xla_above(self) -> int:
        """Bytes besides the step's arguments: XLA's heap and outputs, and what a backward is handed."""
        return above(self.program, self.xla)

    @property
    def spared_above(self) -> int:
        """The same under `SPARING`."""
        return above(self.program, self.spared)


def above(program: str, memory: Memory) -> int:
    """Bytes of one of `PROGRAMS` besides the step's arguments; those of ``backward`` are what it is handed."""
    handed = memory.arguments if program == "backward" else 0
    return handed + memory.temporary + memory.outputs - memory.aliased


@door
def memory_beside(module: nn.Module, x: Tensor) -> tuple[MemoryRow, ...]:
    """A MiniGPT block's loss and gradients on ``x`` [batch, length, dim], on one device, by XLA and by our lifetimes.

    Raises ValueError for a module that is no such block, and as `jax_here`.
    """
    jax = jax_here(1)
    given = {name: jax.numpy.asarray(each) for name, each in weights_of(module).items()}
    stream = jax.numpy.asarray(x.detach().numpy())
    xla, kept = xla_memory(given, stream, module.attention.heads)
    spared, _ = xla_memory(given, stream, module.attention.heads, SPARING)
    graphs = training_graphs(*_torch_step(module, x))
    apart, whole = graph_lifetimes(graphs), joint_lifetimes(graphs)
    ours = {"forward": _peak(apart, "forward"), "joint": whole.peak_nbytes, "backward": _peak(apart, "backward")}
    return tuple(
        MemoryRow(
            each, xla[each], spared[each], ours[each],
            *((None, None) if each == "joint" else (kept, graphs.saved_nbytes)),
        )
        for each in PROGRAMS
    )  # fmt: skip


def xla_memory(
    weights: Mapping[str, Any], x: Any, heads: int, options: Mapping[str, Any] | None = None
) -> tuple[dict[str, Memory], int]:
    """What XLA plans for each of `PROGRAMS` on one device, and the bytes that its forward hands to its backward."""
    jax = jax_here(1)

    def forward(weights: Any, x: Any) -> Any:
        return jax.vjp(lambda w: loss(w, x, heads), weights)

    def joint(weights: Any, x: Any) -> Any:
        return jax.value_and_grad(lambda w: loss(w, x, heads))(weights)

    def compiled(fn: Any, *args: Any) -> Any:
        layout = ["R"] * len(args)
        return compiled_for(fn, args, layout, mesh={AXIS: 1}, partitioner="shardy", options=options)[1]

    first = compiled(forward, weights, x)
    _, pull = first(*placed((weights, x), first))
    planned = {
        "forward": memory_of(first),
        "joint": memory_of(compiled(joint, weights, x)),
        "backward": memory_of(compiled(lambda pull: pull(jax.numpy.float32(1)), pull)),
    }
    return planned, sum(each.nbytes for each in jax.tree.leaves(pull))


def _torch_step(module: nn.Module, x: Tensor) -> tuple[Any, ...]:
    """The block of gspmd_block in torch as a function of all its weights, so that both compilers see the same."""
    heads, length = module.attention.heads, x.shape[1]
    weights = [torch.from_numpy(each.copy()).requires_grad_() for each in weights_of(module).values()]
    mask = torch.ones(length, length, dtype=torch.bool).tril()

    def step(x: Tensor, mask: Tensor, *weights: Tensor) -> Tensor:
        return torch_loss(dict(zip(NAMES, weights, strict=True)), x, mask, heads)

    return step, x.detach(), mask, *weights


def _peak(lifetimes: Lifetimes, phase: str) -> int:
    return max(each.live_bytes for each in lifetimes.timeline if each.phase == phase)
