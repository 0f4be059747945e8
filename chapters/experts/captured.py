"""What torch.compile makes of each way to dispatch, over steps with several numbers of tokens."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from compile_lab._torch.dynamo import NotOneGraphError, dynamo_config, dynamo_utils

from ..shared.counting import Counting
from .layer import MoE, grads, tokens

STEPS = 256, 320, 250, 256
"""Numbers of tokens in four steps: what a data loader that packs documents gives."""
FLAGS = {"loop": "capture_scalar_outputs", "masks": "capture_dynamic_output_shape_ops"}
"""The option of Dynamo that lets a way's data-dependent sizes into the graph."""


@dataclass(frozen=True)
class Captured:
    """What became of a compiled layer in `STEPS`."""

    way: str
    flag: bool
    graphs: int
    """That Dynamo handed to the backend in all steps."""
    new: tuple[int, ...]
    """Of these, those of each step."""
    breaks: int
    """What torch's counter of graph breaks says, in all."""
    calls: int
    """Calls in the forward graphs that ran in the last step."""
    wrong_by: float
    """How far the output or a gradient is from the same way in eager mode, relative to its largest element."""

    @property
    def name(self) -> str:
        return f"{self.way}, captured" if self.flag else self.way


def captured(way: str, flag: bool = False, steps: Sequence[int] = STEPS, **options: Any) -> Captured:
    """Compile a layer, run forward and backward once for each number of tokens, and compare with eager mode."""
    torch.compiler.reset()
    dynamo_utils.counters.clear()
    counting, new, worst = Counting(), [], 0.0
    with dynamo_config.patch({FLAGS[way]: True}) if flag else nullcontext():
        plain, layer = MoE(way), MoE(way)
        layer.compile(backend=counting, **options)
        for count in steps:
            before = counting.graphs
            counting.begin()
            worst = max(worst, distance(gradients(layer, tokens(count)), gradients(plain, tokens(count))))
            new.append(counting.graphs - before)
    breaks = sum(dynamo_utils.counters["graph_break"].values())
    return Captured(way, flag, counting.graphs, tuple(new), breaks, counting.nodes_run, worst)


def whole(way: str, flag: bool = False) -> str:
    """Compile a layer with ``fullgraph=True``: empty if it is one graph, else the first line of what torch says."""
    try:
        captured(way, flag, STEPS[:1], fullgraph=True)
    except NotOneGraphError as error:
        return str(error).strip().splitlines()[0]
    return ""


def gradients(layer: MoE, x: Tensor) -> list[Tensor]:
    """The layer's output, and the gradients of the sum of its squares by the input and each parameter."""
    layer.zero_grad()
    x = x.clone().requires_grad_()
    out = layer(x)
    out.square().sum().backward()
    return [out.detach(), *grads(x, *layer.parameters())]


def distance(found: Sequence[Tensor], expected: Sequence[Tensor]) -> float:
    """The largest distance of a tensor from the right one, relative to that one's largest element."""
    pairs = zip(found, expected, strict=True)
    return max(((one - exact).abs().max() / exact.abs().max()).item() for one, exact in pairs)
