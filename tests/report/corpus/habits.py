"""Steps with what people do beside the mathematics: their own operators, prints, checkpoints, functional gradients."""

import logging
import math

import numpy
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.utils.checkpoint import checkpoint

from .parts import Block, mlp
from .registry import step

logger = logging.getLogger(__name__)
DIM = 64


class ReversedGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, strength: float) -> Tensor:
        ctx.strength = strength
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient.neg() * ctx.strength, None


class DomainAdversarial(nn.Module):
    """Features that a second classifier cannot use (Ganin et al. 2015), the more so the longer the training."""

    def __init__(self, total: int = 1000) -> None:
        super().__init__()
        self.calls, self.total = 0, total
        self.features, self.classes, self.domains = mlp(128, 256, DIM), mlp(DIM, 64, 10), mlp(DIM, 64, 1)

    def forward(self, source: Tensor, labels: Tensor, target: Tensor) -> Tensor:
        strength = 2 / (1 + math.exp(-10 * self.calls / self.total)) - 1
        self.calls += 1
        own, other = F.relu(self.features(source)), F.relu(self.features(target))
        domains = self.domains(ReversedGradient.apply(torch.cat([own, other]), strength)).squeeze(1)
        wanted = torch.cat([torch.zeros(len(own)), torch.ones(len(other))])
        return F.cross_entropy(self.classes(own), labels) + F.binary_cross_entropy_with_logits(domains, wanted)


@step("reversed gradient", "an autograd.Function with a number that changes at each call")
def _reversed_gradient():
    return DomainAdversarial(), (torch.randn(64, 128), torch.randint(0, 10, (64,)), torch.randn(64, 128))


@torch.library.custom_op("corpus::rms_norm", mutates_args=())
def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Each row by its root mean square (Zhang and Sennrich 2019)."""
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * weight


@rms_norm.register_fake
def _(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    return torch.empty_like(x)


def _rms_setup(ctx, inputs: tuple[Tensor, Tensor, float], output: Tensor) -> None:
    x, weight, ctx.eps = inputs
    ctx.save_for_backward(x, weight)


def _rms_backward(ctx, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
    x, weight = ctx.saved_tensors
    scale = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + ctx.eps)
    normed, scaled = x * scale, gradient * weight
    of_x = scale * (scaled - normed * (scaled * normed).mean(-1, keepdim=True))
    return of_x, (gradient * normed).flatten(0, -2).sum(0), None


rms_norm.register_autograd(_rms_backward, setup_context=_rms_setup)


class NormedNetwork(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(mlp(DIM, 4 * DIM, DIM, activation=nn.GELU) for _ in range(2))
        self.scales, self.head = nn.ParameterList(torch.ones(DIM) for _ in range(2)), nn.Linear(DIM, 10)

    def forward(self, x: Tensor, labels: Tensor) -> Tensor:
        for layer, scale in zip(self.layers, self.scales, strict=True):
            x = x + layer(rms_norm(x, scale, 1e-6))
        return F.cross_entropy(self.head(x.mean(1)), labels)


@step("custom operator", "an operator of one's own, with a gradient")
def _custom_operator():
    return NormedNetwork(), (torch.randn(8, 32, DIM), torch.randint(0, 10, (8,)))


@torch.library.custom_op("corpus::farthest_points", mutates_args=())
def farthest_points(points: Tensor, count: int) -> Tensor:
    """Points far from each other, one after the other, by numpy."""
    chosen = numpy.zeros((points.shape[0], count), dtype=numpy.int64)
    for row, cloud in enumerate(points.detach().cpu().numpy()):
        distance = numpy.full(len(cloud), numpy.inf)
        for at in range(1, count):
            distance = numpy.minimum(distance, ((cloud - cloud[chosen[row, at - 1]]) ** 2).sum(1))
            chosen[row, at] = distance.argmax()
    return torch.from_numpy(chosen).to(points.device)


class PointNetwork(nn.Module):
    """Groups of points around some that are far apart (Qi et al. 2017)."""

    def __init__(self, groups: int = 16, near: int = 12) -> None:
        super().__init__()
        self.groups, self.near = groups, near
        self.local, self.whole, self.head = mlp(3, 32, 64), mlp(64 + 3, 128, 128), mlp(128, 64, 10)

    def forward(self, points: Tensor, labels: Tensor) -> Tensor:
        rows = torch.arange(len(points))[:, None]
        centres = points[rows, farthest_points(points, self.groups)]
        nearest = torch.cdist(centres, points).topk(self.near, dim=-1, largest=False).indices
        around = points[rows[..., None], nearest] - centres[:, :, None]
        h = self.local(around).max(2).values
        h = self.whole(torch.cat([centres, h], -1)).max(1).values
        return F.cross_entropy(self.head(h), labels)


@step("custom operator without a fake", "an operator of one's own by numpy, of which nobody said what shape it returns")
def _farthest_points():
    return PointNetwork(), (torch.randn(8, 128, 3), torch.randint(0, 10, (8,)))


class Talkative(nn.Module):
    """A classifier whose author wanted to know what goes on."""

    def __init__(self) -> None:
        super().__init__()
        self.layers, self.head, self.calls = nn.ModuleList(Block(DIM) for _ in range(2)), nn.Linear(DIM, 10), 0

    def forward(self, x: Tensor, labels: Tensor) -> Tensor:
        self.calls += 1
        for at, layer in enumerate(self.layers):
            x = layer(x)
            logger.debug("layer %d: mean %.3f, deviation %.3f", at, x.mean().item(), x.std().item())
        assert not torch.isnan(x).any(), "there are NaNs"
        loss = F.cross_entropy(self.head(x.mean(1)), labels)
        if self.calls % 2 == 1:
            print(f"call {self.calls}: loss {loss.item():.4f}, shape {tuple(x.shape)}")
        return loss


@step("prints", "a print, a logger and an assertion in the forward")
def _prints():
    return Talkative(), (torch.randn(4, 32, DIM), torch.randint(0, 10, (4,)))


class MixedPrecision(nn.Module):
    """The body under autocast, the loss in full precision."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 32, 3, 2, 1), nn.GroupNorm(8, 32), nn.GELU(), nn.Conv2d(32, 64, 3, 2, 1))
        self.blocks, self.head = nn.Sequential(Block(64), Block(64)), nn.Linear(64, 10)

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        with torch.autocast(device_type=images.device.type, dtype=torch.bfloat16):
            x = self.blocks(self.body(images).flatten(2).transpose(1, 2))
            logits = self.head(x.mean(1))
        return F.cross_entropy(logits.float(), labels)


@step("autocast", "autocast opened and closed in the forward")
def _autocast():
    return MixedPrecision(), (torch.rand(8, 3, 32, 32), torch.randint(0, 10, (8,)))


class Checkpointed(nn.Module):
    """Blocks whose activations are computed twice (Chen et al. 2016)."""

    def __init__(self, reentrant: bool, depth: int = 4) -> None:
        super().__init__()
        self.reentrant, self.into = reentrant, nn.Linear(32, DIM)
        self.blocks = nn.ModuleList(nn.Sequential(Block(DIM), nn.Dropout(0.1)) for _ in range(depth))
        self.head = nn.Linear(DIM, 10)

    def forward(self, x: Tensor, labels: Tensor) -> Tensor:
        x = self.into(x)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=self.reentrant) if self.training else block(x)
        return F.cross_entropy(self.head(x.mean(1)), labels)


@step("checkpoints", "blocks under torch.utils.checkpoint, with dropout")
def _checkpoints():
    return Checkpointed(reentrant=False), (torch.randn(8, 64, 32), torch.randint(0, 10, (8,)))


@step("reentrant checkpoints", "the same in the older way, which calls backward from within the backward")
def _reentrant_checkpoints():
    return Checkpointed(reentrant=True), (torch.randn(8, 64, 32), torch.randint(0, 10, (8,)))


class GradientVariance(nn.Module):
    """Domains whose gradients shall vary alike (Rame et al. 2021): a gradient for each sample, in the loss."""

    def __init__(self, weight: float = 10.0) -> None:
        super().__init__()
        self.weight, self.features, self.head = weight, mlp(32, 128, DIM), nn.Linear(DIM, 5)

    def per_sample(self, h: Tensor, y: Tensor) -> Tensor:
        def loss(parameters: dict[str, Tensor], one: Tensor, label: Tensor) -> Tensor:
            return F.cross_entropy(functional_call(self.head, parameters, (one[None],)), label[None])

        gradients = vmap(grad(loss), in_dims=(None, 0, 0))(dict(self.head.named_parameters()), h, y)
        return torch.cat([each.flatten(1) for each in gradients.values()], dim=1)

    def forward(self, x: Tensor, y: Tensor, domain: Tensor) -> Tensor:
        h = F.relu(self.features(x))
        gradients = self.per_sample(h, y)
        variances = torch.stack([gradients[domain == each].var(0) for each in domain.unique()])
        penalty = (variances - variances.mean(0)).pow(2).sum(1).mean()
        return F.cross_entropy(self.head(h), y) + self.weight * penalty


@step("per-sample gradients", "vmap over grad in the loss, and as many groups as there are different numbers")
def _per_sample():
    domain = torch.arange(96) % 3
    return GradientVariance(), {"x": torch.randn(96, 32), "y": torch.randint(0, 5, (96,)), "domain": domain}
