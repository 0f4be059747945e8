"""Programs whose ranks part ways, each with its cure. Every rank runs the program, as a user would write it.

The group's time-out is `PATIENCE_S`, so that a program that hangs raises soon. ``RUN`` in the environment is a folder.
"""

import inspect
import os
import signal
import textwrap
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
from torch import nn
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel

PATIENCE_S = 2.0
"""Of every group. By default gloo waits for half an hour, and NCCL for ten minutes."""


@dataclass(frozen=True)
class HangCase:
    """A program that hangs, and its cure: both return the same on every rank, if they end.

    ``before`` runs first, alone, in a process of its own: what an earlier job has left. ``caches`` names the folder of
    Inductor's cache for each rank. ``again``: the cure is the second start of a job whose first one was ``program``.
    """

    name: str
    title: str
    why: str
    cured: str
    program: Callable[[], Any]
    cure: Callable[[], Any]
    expected: Any
    ranks: int = 2
    needs: tuple[Any, ...] = ()
    cure_needs: tuple[Any, ...] = ()
    before: Callable[[], Any] | None = None
    caches: tuple[str, ...] = ()
    again: bool = False


def source(function: Any, *needs: Any) -> str:
    """The function as it is written, below what it needs."""
    return "\n\n\n".join(textwrap.dedent(inspect.getsource(each)).rstrip() for each in (*needs, function))


def deep(x: torch.Tensor) -> torch.Tensor:
    for layer in range(2):
        product = torch.sin(x) @ torch.cos(x)
        x = product / (layer + 8) + x.softmax(-1).cumsum(0)
    return x.mean()


# One compiles, and the others wait.


def rank_0_validates() -> float:
    if dist.get_rank() == 0:
        torch.compile(deep)(torch.ones(8, 8))
    total = torch.ones(1)
    dist.all_reduce(total)
    return total.item()


def others_wait_as_long_as_it_takes() -> float:
    patient = dist.new_group(timeout=timedelta(minutes=10))
    if dist.get_rank() == 0:
        torch.compile(deep)(torch.ones(8, 8))
    dist.barrier(group=patient)
    total = torch.ones(1)
    dist.all_reduce(total)
    return total.item()


# A cache hit on one rank.


def an_earlier_job() -> None:
    torch.compile(deep)(torch.ones(8, 8))


def loads_or_compiles() -> float:
    torch.compile(deep)(torch.ones(8, 8))
    total = torch.ones(1)
    dist.all_reduce(total)
    return total.item()


def starts_when_all_are_compiled() -> float:
    patient = dist.new_group(timeout=timedelta(minutes=10))
    torch.compile(deep)(torch.ones(8, 8))
    dist.barrier(group=patient)
    total = torch.ones(1)
    dist.all_reduce(total)
    return total.item()


# A recompilation on one rank.


def summed(x: torch.Tensor) -> torch.Tensor:
    return funcol.all_reduce(deep(x @ x.T), "sum", dist.group.WORLD)


def an_earlier_job_with_length_8() -> None:
    torch.compile(summed, dynamic=False)(torch.ones(8, 4))


def rank_1_has_a_longer_batch() -> int:
    step = torch.compile(summed, dynamic=False)
    lengths = (8, 8) if dist.get_rank() == 0 else (8, 9)
    losses = [step(torch.ones(length, 4)) for length in lengths]
    return len(losses)


def one_graph_for_all_lengths() -> int:
    step = torch.compile(summed, dynamic=True)
    lengths = (8, 8) if dist.get_rank() == 0 else (8, 9)
    patient = dist.new_group(timeout=timedelta(minutes=10))
    step(torch.ones(7, 4))
    dist.barrier(group=patient)
    losses = [step(torch.ones(length, 4)) for length in lengths]
    return len(losses)


# A branch in a compiled function.


@torch.compile
def clipped(grad: torch.Tensor) -> torch.Tensor:
    if grad.abs().max() > 1:
        square = grad.square().sum()
        norm = funcol.all_reduce(square, "sum", dist.group.WORLD)
        return grad / norm.sqrt()
    return grad


def one_rank_clips() -> list[float]:
    grad = torch.full((4,), 2.0 if dist.get_rank() == 0 else 0.5)
    grad = clipped(grad)
    dist.all_reduce(grad)
    return grad.tolist()


@torch.compile(fullgraph=True)
def clipped_by_all(grad: torch.Tensor) -> torch.Tensor:
    largest, square = grad.abs().max(), grad.square().sum()
    largest = funcol.all_reduce(largest, "max", dist.group.WORLD)
    norm = funcol.all_reduce(square, "sum", dist.group.WORLD)
    return torch.where(largest > 1, grad / norm.sqrt(), grad)


def all_ranks_clip() -> list[float]:
    grad = torch.full((4,), 2.0 if dist.get_rank() == 0 else 0.5)
    grad = clipped_by_all(grad)
    dist.all_reduce(grad)
    return [round(each, 4) for each in grad.tolist()]


# Another order of collectives.


def each_in_its_own_order() -> dict[str, float]:
    loss, words = torch.ones(1), torch.ones(4)
    metrics = {"loss": loss, "words": words}
    if dist.get_rank() == 1:  # as it came out of a set, or of a folder
        metrics = {"words": words, "loss": loss}
    for each in metrics.values():
        dist.all_reduce(each)
    return {name: metrics[name].sum().item() for name in sorted(metrics)}


def all_in_one_order() -> dict[str, float]:
    loss, words = torch.ones(1), torch.ones(4)
    metrics = {"loss": loss, "words": words}
    if dist.get_rank() == 1:
        metrics = {"words": words, "loss": loss}
    for name in sorted(metrics):
        dist.all_reduce(metrics[name])
    return {name: metrics[name].sum().item() for name in sorted(metrics)}


# A branch that depends on the rank.


def rank_0_logs() -> float:
    loss = torch.tensor(3.0 + dist.get_rank())
    if dist.get_rank() == 0:
        dist.all_reduce(loss, op=dist.ReduceOp.MAX)
    dist.barrier()
    return loss.item()


def all_reduce_and_rank_0_logs() -> float:
    loss = torch.tensor(3.0 + dist.get_rank())
    dist.all_reduce(loss, op=dist.ReduceOp.MAX)
    if dist.get_rank() == 0:
        print(loss.item())
    dist.barrier()
    return loss.item()


# An uneven last batch.


class OneWeight(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (self.weight * x).sum()


def trains_on_what_it_has() -> float:
    model = DistributedDataParallel(OneWeight())
    batches = [torch.ones(1)] * (3 if dist.get_rank() == 0 else 2)
    for batch in batches:
        model.zero_grad()
        model(batch).backward()
    dist.barrier()
    return model.module.weight.grad.item()


def joins_at_the_end() -> float:
    model = DistributedDataParallel(OneWeight())
    batches = [torch.ones(1)] * (3 if dist.get_rank() == 0 else 2)
    with Join([model], divide_by_initial_world_size=False):
        for batch in batches:
            model.zero_grad()
            model(batch).backward()
    dist.barrier()
    return model.module.weight.grad.item()


# A different DDP graph.


class TwoTowers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.text, self.image = OneWeight(), OneWeight()

    def forward(self, text: torch.Tensor, image: torch.Tensor | None) -> torch.Tensor:
        loss = self.text(text)
        return loss if image is None else loss + self.image(image)


def rank_1_has_no_image() -> list[float]:
    model = DistributedDataParallel(TwoTowers())
    image = torch.ones(1) if dist.get_rank() == 0 else None
    for _ in range(2):
        model.zero_grad()
        model(torch.ones(1), image).backward()
    return [weight.grad.item() for weight in model.parameters()]


def unused_weights_are_sent_too() -> list[float]:
    model = DistributedDataParallel(TwoTowers(), find_unused_parameters=True)
    image = torch.ones(1) if dist.get_rank() == 0 else None
    for _ in range(2):
        model.zero_grad()
        model(torch.ones(1), image).backward()
    return [weight.grad.item() for weight in model.parameters()]


# An exception that one rank swallows.


def skips_a_bad_sample() -> list[float]:
    means = []
    for step in range(3):
        try:
            if (dist.get_rank(), step) == (1, 1):
                raise ValueError("a broken image")
            mean = torch.full((step + 1,), 2.0)
            dist.all_reduce(mean)
            means.append(mean.sum().item())
        except ValueError:
            continue
    return means


def all_skip_it() -> list[float]:
    means = []
    for step in range(3):
        bad = torch.tensor(int((dist.get_rank(), step) == (1, 1)))
        dist.all_reduce(bad, op=dist.ReduceOp.MAX)
        if bad:
            continue
        mean = torch.full((step + 1,), 2.0)
        dist.all_reduce(mean)
        means.append(mean.sum().item())
    return means


# A dead rank.


def rank_1_is_killed() -> float:
    kept = Path(os.environ["RUN"], "weight.pt")
    weight, first = torch.zeros(1), 0
    if kept.exists():
        weight, first = torch.load(kept)
    for step in range(first, 4):
        if (dist.get_rank(), step, first) == (1, 2, 0):
            os.kill(os.getpid(), signal.SIGKILL)  # memory is short
        time.sleep(0.3)  # a forward and a backward
        gradient = torch.ones(1)
        dist.all_reduce(gradient)
        weight += gradient
        if dist.get_rank() == 0:
            torch.save((weight, step + 1), kept)
    return weight.item()


# A group that one rank makes alone.


def rank_0_makes_a_group() -> float:
    total = torch.ones(1)
    if dist.get_rank() == 0:
        group = dist.new_group([0, 1], timeout=timedelta(seconds=2))
        dist.all_reduce(total, group=group)
    dist.barrier()
    return total.item()


def all_make_the_group() -> float:
    total = torch.ones(1)
    group = dist.new_group([0, 1], timeout=timedelta(seconds=2))
    dist.all_reduce(total, group=group)
    dist.barrier()
    return total.item()


# All receive before they send.


def receives_first() -> float:
    mine, theirs = torch.full((4,), float(dist.get_rank())), torch.empty(4)
    other = 1 - dist.get_rank()
    dist.recv(theirs, other)
    dist.send(mine, other)
    return (mine + theirs).sum().item()


def sends_and_receives_at_once() -> float:
    mine, theirs = torch.full((4,), float(dist.get_rank())), torch.empty(4)
    other = 1 - dist.get_rank()
    sends = dist.P2POp(dist.isend, mine, other)
    receives = dist.P2POp(dist.irecv, theirs, other)
    for work in dist.batch_isend_irecv([sends, receives]):
        work.wait()
    return (mine + theirs).sum().item()


# Of three ranks, one with another shape.


def gathers_what_it_has() -> float:
    dist.barrier()
    mine = torch.ones(2 if dist.get_rank() < 2 else 3)
    if dist.get_rank() < 2:
        dist.all_reduce(mine)
    else:
        dist.broadcast(mine, src=2)
    return mine.sum().item()


def pads_to_the_longest() -> float:
    dist.barrier()
    mine = torch.ones(2 if dist.get_rank() < 2 else 3)
    longest = torch.tensor(len(mine))
    dist.all_reduce(longest, op=dist.ReduceOp.MAX)
    padded = nn.functional.pad(mine, (0, int(longest) - len(mine)))
    dist.all_reduce(padded)
    return padded.sum().item()
