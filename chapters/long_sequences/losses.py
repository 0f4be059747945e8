"""The mean of a loss over tokens, over documents, over devices: three numbers, and three gradients."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from compile_lab.devices import ranks

WORDS, WIDTH = 11, 8


def by_token(losses: Sequence[Tensor]) -> Tensor:
    """The mean over all tokens; losses: of each document, [its tokens]."""
    return torch.cat([*losses]).mean()


def by_document(losses: Sequence[Tensor]) -> Tensor:
    """The mean of the documents' means."""
    return torch.stack([each.mean() for each in losses]).mean()


def by_device(devices: Sequence[Sequence[Tensor]]) -> Tensor:
    """The mean of the devices' means over tokens: what DDP's average of gradients belongs to."""
    return torch.stack([by_token(each) for each in devices]).mean()


# ---- which one is yours
Loss = Callable[[Tensor, Tensor, Tensor], Tensor]
"""(logits [tokens, words], labels [tokens], document numbers [tokens]): a number."""


def logits_of(losses: Tensor, labels: Tensor) -> Tensor:
    """Logits, [tokens, WORDS], with which the cross-entropy of each label is what is asked."""
    chance = (-losses).exp()
    logits = torch.zeros(len(losses), WORDS)
    logits[torch.arange(len(losses)), labels] = torch.log((WORDS - 1) * chance / (1 - chance))
    return logits


def which(loss: Loss) -> str:
    """Which mean a loss function takes, found by three documents whose losses are known."""
    lengths, each = torch.tensor([90, 5, 5]), torch.tensor([2.0, 5.0, 5.0])
    labels, documents = torch.arange(100) % WORDS, torch.arange(3).repeat_interleave(lengths)
    found = float(loss(logits_of(each.repeat_interleave(lengths), labels), labels, documents))
    known = {"by token": (lengths * each).sum() / 100, "by document": each.mean(), "a sum": (lengths * each).sum()}
    return next((name for name, value in known.items() if math.isclose(found, value, rel_tol=1e-4)), "none of these")


# ---- on ranks
@dataclass(frozen=True)
class Gradient:
    """What DDP averages, against one process whose loss is the mean over all tokens."""

    how: str
    off: float
    """The largest distance of a gradient, relative to the largest element of the exact one."""


HOWS = "the mean of this rank's tokens", "the sum, over all ranks' tokens", "the same, times the number of ranks"


def gradients(tokens: Sequence[int]) -> list[Gradient]:
    """Each way to scale a rank's loss, on a real rank for each of `tokens`, the numbers of tokens that they have."""
    found = ranks.run(on_rank, len(tokens), tuple(tokens), echo=False)[0]
    exact = _grad(_model(), *_batch(sum(tokens)))
    return [
        Gradient(how, ((made - exact).abs().max() / exact.abs().max()).item())
        for how, made in zip(HOWS, found, strict=True)
    ]


def on_rank(tokens: Sequence[int]) -> list[Tensor]:
    """The gradient that DDP leaves, for each way of `HOWS`."""
    rank, size = dist.get_rank(), dist.get_world_size()
    x, labels = (each.split([*tokens])[rank] for each in _batch(sum(tokens)))
    every = torch.tensor(float(len(labels)))
    dist.all_reduce(every)  # the tokens of all ranks
    scales = 1 / len(labels), 1 / every, size / every
    return [_grad(DistributedDataParallel(_model()), x, labels, float(scale)) for scale in scales]


def _grad(model: nn.Module, x: Tensor, labels: Tensor, scale: float | None = None) -> Tensor:
    (F.cross_entropy(model(x), labels, reduction="sum") * (scale or 1 / len(labels))).backward()
    (weight,) = model.parameters()
    assert weight.grad is not None
    return weight.grad


def _model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Linear(WIDTH, WORDS, bias=False)


def _batch(tokens: int) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(1)
    return torch.randn(tokens, WIDTH, generator=draw), torch.randint(WORDS, (tokens,), generator=draw)
