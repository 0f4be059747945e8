"""The recording ``simple_fsdp``: GPT-2 on two GPUs, sharded by FSDP2 and by a parametrization that a compiler sees.

All ways share one process a rank and take turns, so that what disturbs the machine disturbs all of them. Each compiled
way has a code object of its own: the guards of the others are not in its way.
"""

import time
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor

from ..devices import ranks
from ..devices import steps as overlap_runs
from ..devices.ranks import RankFailed
from ..devices.step_collectives import SCATTERED_ONCE, WAYS, StepCollectives, in_buckets, step_collectives
from ..measure import allocator
from ..measure.judge import relative_error_together
from . import overlap, subjects
from .registry import Progress

RANKS = 2
BATCH = {"cuda": 8, "cpu": 2}
"""Sequences on each rank, as long as the model's context."""
VOCABULARY = {"cuda": 50304, "cpu": 64}
"""Padded, so that the ranks share its rows equally: GPT-2's own 50257 is odd."""
DTYPE = {"cuda": torch.bfloat16, "cpu": None}
BUCKET_MB = {"cuda": 25, "cpu": 0.02}
"""A block of GPT-2 124M is 14 MB of bf16 and 28 MB of float32."""
BUDGET_S = {"cuda": 540.0, "cpu": 300.0}
MEASURING = 0.2
"""The share of the budget that is left for timing and profiling: what is not compiled by then is not begun."""


GRACE_S = 60.0
"""For ranks to start, and for what was begun in time to come to its end."""


@dataclass(frozen=True)
class ShardedWay:
    """How one model is sharded and run. `options`: Inductor's for the whole model, or None if it is not compiled whole.

    `again`: what the forward gathered is let go, and gathered again for the backward.
    """

    simple: bool
    options: Mapping[str, Any] | None = None
    blocks: bool = False
    again: bool = True
    risky: bool = False
    """Ranks may wait for each other while they compile: left out where the others are tried a second time."""


def ways(device: str) -> dict[str, ShardedWay]:
    """By name, the most important first: those that come too late are not begun."""
    buckets = in_buckets(BUCKET_MB[device])
    return {
        "FSDP2": ShardedWay(False),
        "FSDP2, compiled blocks": ShardedWay(False, blocks=True),
        "SimpleFSDP, eager": ShardedWay(True, again=False),
        "as it is": ShardedWay(True, WAYS["as it is"]),
        "in buckets, reordered": ShardedWay(True, buckets),
        "bucketed": ShardedWay(True, WAYS["bucketed"]),
        "reordered": ShardedWay(True, WAYS["reordered"]),
        "scheduled in buckets": ShardedWay(True, WAYS["scheduled in buckets"], risky=True),
        "in buckets, reordered, kept": ShardedWay(True, buckets, again=False),
        "in buckets, scattered once": ShardedWay(True, buckets | SCATTERED_ONCE),
        "FSDP2, compiled blocks, kept": ShardedWay(False, blocks=True, again=False),
        "scheduled": ShardedWay(True, WAYS["scheduled"], risky=True),
    }


def record(
    device: str, progress: Progress = iter, *, names: tuple[str, ...] | None = None, budget_s: float | None = None
) -> dict[str, Any]:
    """Steps of GPT-2 124M on two ranks in each way, as plain JSON values. Nine minutes at most.

    Returns ``{"model", "precision", "ranks", "batch", "bucket_mb", "runs": [run], "stopped": [{"way", "why"}]}``. A run
    has "way", "simple", "again", "compiled" ("whole", "blocks" or ""), "compile_s", "loss", "gradient_error" (of this
    step's whole gradients against float32 without sharding), "peak_nbytes" and "held_nbytes" of rank 0 (None on a CPU),
    "graphs" (of each compiled graph its "order", "collectives" as [kind, bytes, type, products before its wait],
    "kept_nbytes") and, as in the recording `overlap`, "by_rank" and "timeline": medians and quartiles of a step, and
    what of a profiled one is exposed.

    ``names``: of `ways`. A way that fails or is not begun in time is told in "stopped". Where the ranks come to no
    end, those that may wait for each other while they compile are left out, and the others are tried once more.
    Raises RuntimeError on a machine with one GPU, KeyError for a name that is none of `ways`.
    """
    known = ways(device)
    chosen = {name: known[name] for name in names or known}
    if device == "cuda" and torch.cuda.device_count() < RANKS:
        raise RuntimeError(f"simple_fsdp needs {RANKS} GPUs, and {torch.cuda.device_count()} is here")
    until = time.time() + (BUDGET_S[device] if budget_s is None else budget_s)
    safe = [name for name, way in chosen.items() if not way.risky]
    found: list[ShardedRuns] = []
    stopped = []
    for several in progress([list(chosen), safe] if len(safe) < len(chosen) else [safe]):
        share = 1.0 if several == safe else 0.7
        try:
            found = _on_ranks(device, several, share * (until - time.time()))
            break
        except RankFailed as error:
            lines = [line.strip() for line in str(error).splitlines()]
            stopped.append({"way": ", ".join(several), "why": " … ".join(dict.fromkeys((lines[0], lines[-1])))})
    if found:
        stopped += [{"way": name, "why": why} for name, why in found[0].stopped.items()]
    return {
        "model": "GPT-2 124M with 50,304 tokens" if device == "cuda" else "a GPT of 2 layers, 32 wide",
        "precision": "bf16 autocast, gathers in bf16, gradients reduced in float32" if DTYPE[device] else "float32",
        "ranks": RANKS,
        "batch": BATCH[device],
        "bucket_mb": BUCKET_MB[device],
        "runs": [_run(name, known[name], found) for name in (found[0].steps if found else ())],
        "stopped": stopped,
    }


@dataclass
class ShardedRuns:
    """One rank's: what each way's steps took, what else is known of it, and why others were stopped."""

    steps: dict[str, overlap_runs.StepRun] = field(default_factory=dict)
    facts: dict[str, dict[str, Any]] = field(default_factory=dict)
    stopped: dict[str, str] = field(default_factory=dict)


def _on_ranks(device: str, names: list[str], seconds: float) -> list[ShardedRuns]:
    """Raises RankFailed where a rank fails alone, or the ranks come to no end."""
    backend, until = "nccl" if device == "cuda" else "gloo", time.time() + seconds
    found: list[ShardedRuns] = ranks.run(
        _on_rank, RANKS, device, names, until, timeout=max(0.0, seconds) + GRACE_S, backend=backend
    )
    return found


def _on_rank(device: str, names: list[str], until: float) -> ShardedRuns:
    runs, steps = ShardedRuns(), {}
    mesh, begin = init_device_mesh(device, (RANKS,)), time.time()
    inputs, exact = _exact(device)
    for name in names:
        left = until - time.time() - MEASURING * (until - begin)
        if not _agreed(left > 0, device):
            runs.stopped[name] = "not begun: the time given was over"
            continue
        why, made = "", None
        try:
            made = _made(ways(device)[name], device, mesh, inputs, exact)
        except Exception as error:
            why = _said(error)
        if _agreed(made is not None, device) and made is not None:
            steps[name], runs.facts[name] = made
        else:
            runs.stopped[name] = why or "stopped on another rank"
    exact.clear()
    if steps:
        runs.steps = overlap_runs.measured(steps, device=device)
    return runs


def _agreed(yes: bool, device: str) -> bool:
    """Do all ranks say yes? One that went on alone would wait for the others."""
    votes = torch.tensor(int(yes), device=device)
    dist.all_reduce(votes, dist.ReduceOp.MIN)
    return bool(votes)


def _gpt(device: str) -> Any:
    if device == "cuda":
        return subjects.minigpt("gpt2-124m", device, VOCABULARY[device])
    return subjects.deep_gpt(2, 32, 2, 16, device, VOCABULARY[device])


def _exact(device: str) -> tuple[tuple[Tensor, Tensor], dict[str, Tensor]]:
    """This rank's rows, and the mean gradients of all ranks' rows: float32, not sharded, not compiled."""
    model = _gpt(device)
    tokens, targets = subjects.tokens(model, RANKS * BATCH[device])
    mine = slice(BATCH[device] * dist.get_rank(), BATCH[device] * (dist.get_rank() + 1))
    inputs = tokens[mine].contiguous(), targets[mine].contiguous()
    model(*inputs).backward()
    gradients = {}
    for name, parameter in model.named_parameters():
        dist.all_reduce(parameter.grad)
        gradients[name] = parameter.grad / RANKS
    return inputs, gradients


def _made(
    way: ShardedWay, device: str, mesh: DeviceMesh, inputs: tuple[Tensor, Tensor], exact: Mapping[str, Tensor]
) -> tuple[Callable[[], None], dict[str, Any]]:
    """A training step that is compiled and has run, and what is known of it."""
    facts: dict[str, Any] = {}
    with allocator.peak(device) as held:
        run = _sharded(way, device, mesh)
        optimizer = torch.optim.AdamW(run.model.parameters(), lr=1e-5, fused=True)

        def first() -> None:
            loss = run.loss(*inputs)
            loss.backward()
            facts["loss"] = loss.detach().item()

        begin, seen = time.perf_counter(), None
        if way.options is not None or way.blocks:
            seen = step_collectives(first)
        else:
            first()
        facts["compile_s"] = round(time.perf_counter() - begin, 2)
        gradients = {name: _whole(each.grad) for name, each in subjects.named_parameters(run.model).items()}
        facts["gradient_error"] = relative_error_together(gradients, exact)
        del gradients
        step = overlap_runs.training_step(run.loss, optimizer, *inputs)
        step()
    with allocator.peak(device) as taken:
        step()
    both = (held.held_nbytes, taken.rise_nbytes)
    facts |= {"held_nbytes": held.held_nbytes, "peak_nbytes": None if None in both else sum(both)}
    return step, facts | {"graphs": _graphs(seen)}


@dataclass(frozen=True)
class ShardedModel:
    """A sharded model, and its loss as this way computes it."""

    model: Any
    loss: Callable[..., Tensor]


def _sharded(way: ShardedWay, device: str, mesh: DeviceMesh) -> ShardedModel:
    dtype = DTYPE[device]
    if way.simple:
        model = subjects.in_slices(_gpt(device), mesh, dtype, again=way.again)
    else:
        model = subjects.fully_sharded(_gpt(device), mesh, dtype, compiled=way.blocks, reshard=way.again)

    run = _run_of(model, way.options)

    def loss(*given: Tensor) -> Tensor:
        with torch.autocast(device, dtype or torch.bfloat16, enabled=dtype is not None):
            return run(*given)

    return ShardedModel(model, loss)


def _run_of(model: Callable[..., Tensor], options: Mapping[str, Any] | None) -> Callable[..., Tensor]:
    """The model compiled whole with Inductor's options, under a code object of its own; as it is if there are none."""

    def plain(tokens: Tensor, targets: Tensor) -> Tensor:
        return model(tokens, targets)

    if options is None:
        return model
    own = types.FunctionType(plain.__code__.replace(), plain.__globals__, "own", None, plain.__closure__)
    return torch.compile(own, fullgraph=True, options=dict(options) or None)


def _whole(gradient: Tensor) -> Tensor:
    return gradient.full_tensor() if isinstance(gradient, DTensor) else gradient


def _graphs(seen: StepCollectives | None) -> list[dict[str, Any]]:
    return [
        {
            "order": list(graph.order),
            "collectives": [[each.kind, each.nbytes, each.dtype, each.products] for each in graph.collectives],
            "kept_nbytes": graph.returned_nbytes,
        }
        for graph in (seen.graphs if seen else ())
    ]


def _run(name: str, way: ShardedWay, found: list[ShardedRuns]) -> dict[str, Any]:
    compiled = "whole" if way.options is not None else "blocks" if way.blocks else ""
    told = overlap.told(name, [each.steps[name] for each in found])
    facts = {"way": told.pop("case"), "simple": way.simple, "again": way.again, "compiled": compiled}
    return facts | found[0].facts[name] | told


def _said(error: BaseException) -> str:
    said = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    return f"{type(error).__name__}: {said}"[:300]
