"""A training run whose compiled gradient is wrong in silence, beside right ones: would anybody have noticed?

A diffusion transformer trains in eager mode, compiled as it comes, and compiled without the pass that is at fault
([pytorch#193061](https://github.com/pytorch/pytorch/issues/193061)), from the same weights on the same batches. What
other seeds do in eager mode is the measure of what is noticed.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from compile_lab._torch.dynamo import compiled_anew
from compile_lab._torch.inductor import inductor_config
from compile_lab.precision.formats import float32_products
from compile_lab.recordings import RecordedRow

from ...experiment import Attempts
from ...registry import Progress
from ..diffusion import AdaLNBlock, DiffusionTransformer, flow_batch

EAGER, COMPILED, SWITCHED = "eager", "compiled", "compiled, switch off"
WAYS = (EAGER, COMPILED, SWITCHED)
SHAPES = ((1, 8192), (4, 2048))
"""Samples and tokens of each: as many tokens in all."""
DIM, BLOCKS, HEADS, LEARNING_RATE = 1024, 3, 16, 3e-4
STEPS, SEEDS = 300, (0, 1, 2)
LAYER_NORMS = ((1, 8192, 1024), (1, 32768, 1024), (1, 32768, 768), (1, 8192, 256), (1, 4096, 1024), (4, 2048, 1024))
"""Shapes of the input of two modulated layer norms."""
LAST_START_S = 480.0


@dataclass(frozen=True)
class DiffusionRun(RecordedRow):
    """One run: ``losses`` and the norm of each block's table, ``table_norms``, by step; and of each parameter the
    relative error of its first gradient against eager's, ``first_errors``."""

    way: str
    precision: str
    samples: int
    tokens: int
    seed: int
    losses: tuple[float, ...]
    table_norms: tuple[tuple[float, ...], ...]
    first_errors: dict[str, float]

    def smoothed(self, window: int = 25) -> list[float]:
        """The mean loss of the last ``window`` steps, from step ``window`` on."""
        return [sum(self.losses[at - window : at]) / window for at in range(window, len(self.losses) + 1)]


@dataclass(frozen=True)
class TableError(RecordedRow):
    """The relative error of the gradient of one table that two layer norms share, as compiled and with the switch."""

    shape: tuple[int, int, int]
    compiled: float
    switched: float


def recorded(result: dict[str, Any]) -> tuple[list[DiffusionRun], list[TableError]]:
    """The rows of a recording."""
    runs = [DiffusionRun.from_json(row) for row in result["runs"]]
    return runs, [TableError.from_json(row) for row in result["tables"]]


def record(
    device: str,
    progress: Progress = iter,
    *,
    steps: int = STEPS,
    shapes: tuple[tuple[int, int], ...] = SHAPES,
    dim: int = DIM,
    layer_norms: tuple[tuple[int, int, int], ...] = LAYER_NORMS,
    precisions: tuple[str, ...] = ("fp32", "bf16 autocast"),
    seeds: tuple[int, ...] = SEEDS,
) -> dict[str, Any]:
    """Two modulated layer norms alone, by shape; then training runs: each way, precision and shape, and for the first
    shape other seeds in eager mode. Returns ``{"model", "tables", "runs", "stopped"}``, as `recorded` reads it."""
    attempts = Attempts(LAST_START_S)
    wanted = [(way, precision, shape, seeds[0]) for shape in shapes for precision in precisions for way in WAYS]
    wanted += [(EAGER, precision, shapes[0], seed) for precision in precisions for seed in seeds[1:]]
    with float32_products("high"):  # TF32 on a GPU, as training scripts set it
        tables = [asdict(table_error(shape, device)) for shape in layer_norms]
        runs = []
        for way, precision, shape, seed in progress(wanted):
            run = functools.partial(trained, way, precision, shape, seed, steps, dim, device)
            runs.append(attempts.in_time(run, part=f"{way}, {precision}, {shape}, seed {seed}"))
    model = {"dim": dim, "blocks": BLOCKS, "heads": HEADS, "steps": steps, "learning_rate": LEARNING_RATE}
    return {
        "model": model,
        "tables": tables,
        "runs": [run.to_json() for run in runs if run],
        "stopped": attempts.by("part"),
    }


@contextmanager
def way_set(way: str) -> Iterator[None]:
    """The pass at fault is off within, if the way says so; nothing compiled is left afterwards."""
    with compiled_anew(), inductor_config.patch({"triton.mix_order_reduction": way != SWITCHED}):
        yield


def modulated_twice(x: Tensor, table: Tensor, weight: Tensor) -> Tensor:
    """Two layer norms with a matmul between; their scales and shifts are the four rows of one table."""
    scale, shift, scale_2, shift_2 = table.chunk(4, dim=1)
    x = F.layer_norm(x, x.shape[-1:]) * (1 + scale) + shift
    return F.layer_norm(x @ weight, x.shape[-1:]) * (1 + scale_2) + shift_2


def table_error(shape: tuple[int, int, int], device: str) -> TableError:
    """Relative error of the table's gradient against eager's, of the two layer norms alone."""
    draw, dim = torch.Generator().manual_seed(0), shape[-1]
    x, cotangent = (torch.randn(shape, generator=draw).to(device) for _ in range(2))
    weight = torch.randn(dim, dim, generator=draw).to(device) * dim**-0.5
    start = torch.randn(1, 4, dim, generator=draw).to(device) * 0.02

    def gradient(function: Any) -> Tensor:
        leaves = [each.clone().requires_grad_() for each in (x, start, weight)]
        return torch.autograd.grad(function(*leaves), leaves, cotangent)[1]

    exact, found = gradient(modulated_twice), {}
    for way in (COMPILED, SWITCHED):
        with way_set(way):
            found[way] = relative_error(gradient(torch.compile(modulated_twice)), exact)
    return TableError(shape, found[COMPILED], found[SWITCHED])


def relative_error(value: Tensor, exact: Tensor) -> float:
    """The norm of the difference, by the norm of what is right."""
    return float((value - exact).double().norm() / exact.double().norm())


def trained(
    way: str, precision: str, shape: tuple[int, int], seed: int, steps: int, dim: int, device: str
) -> DiffusionRun:
    """One run. What it draws hangs on the seed alone; before its first step its gradients are compared with eager's."""
    samples, tokens = shape
    torch.manual_seed(seed)
    model = DiffusionTransformer(tokens, dim, BLOCKS, HEADS).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), LEARNING_RATE)
    autocast = torch.autocast(device, torch.bfloat16, enabled=precision != "fp32")

    def gradients(function: Any) -> dict[str, Tensor]:
        model.zero_grad()
        with autocast:
            loss = function(*flow_batch(samples, tokens, torch.Generator(device).manual_seed(seed)))
        loss.backward()
        return {name: each.grad.clone() for name, each in model.named_parameters() if each.grad is not None}

    with way_set(way):
        step = model if way == EAGER else torch.compile(model)
        exact, first = gradients(model), gradients(step)
        errors = {name: relative_error(first[name], exact[name]) for name in exact}
        model.zero_grad()
        blocks = [each for each in model.blocks if isinstance(each, AdaLNBlock)]
        draw, losses, norms = torch.Generator(device).manual_seed(seed), [], []
        for _ in range(steps):
            with autocast:
                loss = step(*flow_batch(samples, tokens, draw))
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.detach())
            norms.append(torch.stack([block.table.detach().norm() for block in blocks]))
    shown = tuple(round(each, 5) for each in torch.stack(losses).tolist())
    tables = tuple(tuple(round(each, 4) for each in row) for row in torch.stack(norms).T.tolist())
    return DiffusionRun(way, precision, samples, tokens, seed, shown, tables, errors)
