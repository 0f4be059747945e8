"""Steps on pictures: pairs, queues, detectors."""

import random

import numpy
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.parametrizations import spectral_norm, weight_norm

from .parts import Block, mlp
from .registry import step

DIM = 64


def tower(channels: int = 32, out: int = DIM) -> nn.Sequential:
    """A small residual-free convolutional encoder."""
    return nn.Sequential(
        nn.Conv2d(3, channels, 3, 2, 1, bias=False),
        nn.BatchNorm2d(channels),
        nn.ReLU(inplace=True),
        nn.Conv2d(channels, 2 * channels, 3, 2, 1, bias=False),
        nn.BatchNorm2d(2 * channels),
        nn.ReLU(inplace=True),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(2 * channels, out),
    )


def augmented(images: Tensor) -> Tensor:
    """A cut, a flip and other colours, at random."""
    side = images.shape[-1]
    size = random.randint(side // 2, side)
    top, left = random.randint(0, side - size), random.randint(0, side - size)
    cut = F.interpolate(images[..., top : top + size, left : left + size], size=(side, side), mode="bilinear")
    if random.random() < 0.5:
        cut = torch.flip(cut, dims=[3])
    gain = 1 + 0.4 * (torch.rand(len(images), 3, 1, 1) - 0.5)
    return (cut * gain.to(images.device)).clamp(0, 1)


class SimCLR(nn.Module):
    """Two views of a picture against all others (Chen et al. 2020)."""

    def __init__(self, temperature: float = 0.5) -> None:
        super().__init__()
        self.temperature, self.encoder, self.projector = temperature, tower(), mlp(DIM, 64, 32)

    def forward(self, images: Tensor) -> Tensor:
        views = torch.cat([augmented(images), augmented(images)])
        z = F.normalize(self.projector(self.encoder(views)), dim=1)
        alike = z @ z.T / self.temperature
        itself = torch.eye(len(z), dtype=torch.bool, device=z.device)
        alike = alike[~itself].view(len(z), len(z) - 1)
        pair = torch.cat([torch.arange(len(images)) + len(images) - 1, torch.arange(len(images))])
        return F.cross_entropy(alike, pair.to(z.device))


@step("SimCLR", "pictures cut by Python's random numbers in the forward, a diagonal left out by a boolean mask")
def _simclr():
    random.seed(0)
    return SimCLR(), torch.rand(16, 3, 32, 32)


class MoCo(nn.Module):
    """Keys of earlier batches in a queue (He et al. 2019)."""

    def __init__(self, dim: int = DIM, size: int = 256, momentum: float = 0.999, temperature: float = 0.07) -> None:
        super().__init__()
        self.size, self.momentum, self.temperature = size, momentum, temperature
        self.query, self.key = tower(out=dim), tower(out=dim)
        for fast, slow in zip(self.query.parameters(), self.key.parameters(), strict=True):
            slow.data.copy_(fast.data)
            slow.requires_grad = False
        self.register_buffer("queue", F.normalize(torch.randn(dim, size), dim=0))
        self.register_buffer("queue_ptr", torch.zeros(1, dtype=torch.long))

    @torch.no_grad()
    def _momentum_update(self) -> None:
        for fast, slow in zip(self.query.parameters(), self.key.parameters(), strict=True):
            slow.data = slow.data * self.momentum + fast.data * (1.0 - self.momentum)

    @torch.no_grad()
    def _enqueue(self, keys: Tensor) -> None:
        count, at = keys.shape[0], int(self.queue_ptr)
        assert self.size % count == 0
        self.queue[:, at : at + count] = keys.T
        self.queue_ptr[0] = (at + count) % self.size

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        q = F.normalize(self.query(first), dim=1)
        with torch.no_grad():
            self._momentum_update()
            order = torch.randperm(second.shape[0], device=second.device)
            k = F.normalize(self.key(second[order]), dim=1)[torch.argsort(order)]
        near = torch.einsum("nc,nc->n", [q, k]).unsqueeze(-1)
        far = torch.einsum("nc,ck->nk", [q, self.queue.clone().detach()])
        logits = torch.cat([near, far], dim=1) / self.temperature
        self._enqueue(k)
        return F.cross_entropy(logits, torch.zeros(logits.shape[0], dtype=torch.long, device=logits.device))


@step("MoCo", "a queue in a buffer, written at a place that another buffer holds; .data of parameters replaced")
def _moco():
    model = MoCo()
    optimizer = torch.optim.SGD(model.query.parameters(), lr=0.03, momentum=0.9, weight_decay=1e-4)
    return model, (torch.rand(16, 3, 32, 32), torch.rand(16, 3, 32, 32)), optimizer


class SetDetector(nn.Module):
    """Queries matched with objects, one to one, by numpy (Carion et al. 2020; here the nearest first)."""

    def __init__(self, queries: int = 12, classes: int = 5) -> None:
        super().__init__()
        self.stem, self.queries = nn.Conv2d(3, DIM, 8, 8), nn.Embedding(queries, DIM)
        self.encoder = Block(DIM)
        self.decoder = nn.TransformerDecoderLayer(DIM, 4, 128, dropout=0.1, batch_first=True)
        self.scores, self.boxes = nn.Linear(DIM, classes + 1), mlp(DIM, DIM, 4)

    @torch.no_grad()
    def matched(self, logits: Tensor, boxes: Tensor, wanted: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        cost = torch.cdist(boxes, wanted["boxes"], p=1) - logits.softmax(-1)[:, wanted["labels"]]
        left, pairs = cost.cpu().numpy().copy(), []
        for _ in range(left.shape[1]):
            query, target = numpy.unravel_index(left.argmin(), left.shape)
            pairs.append((query, target))
            left[query, :] = left[:, target] = numpy.inf
        rows, columns = zip(*pairs, strict=True)
        return torch.as_tensor(numpy.array(rows)), torch.as_tensor(numpy.array(columns))

    def forward(self, images: Tensor, targets: list[dict[str, Tensor]]) -> Tensor:
        memory = self.encoder(self.stem(images).flatten(2).transpose(1, 2))
        h = self.decoder(self.queries.weight.unsqueeze(0).repeat(len(images), 1, 1), memory)
        logits, boxes = self.scores(h), self.boxes(h).sigmoid()
        loss = 0
        for said, placed, wanted in zip(logits, boxes, targets, strict=True):
            rows, columns = self.matched(said, placed, wanted)
            classes = torch.full((len(said),), 5, dtype=torch.int64)
            classes[rows] = wanted["labels"][columns]
            loss = loss + F.cross_entropy(said, classes) + 5 * F.l1_loss(placed[rows], wanted["boxes"][columns])
        return loss / len(images)


@step("DETR", "a matching by numpy in the loss, targets in a list of dicts")
def _detr():
    targets = [{"labels": torch.randint(0, 5, (n,)), "boxes": torch.rand(n, 4)} for n in (3, 1, 4, 2)]
    return SetDetector(), (torch.rand(4, 3, 64, 64), targets)


class SpectralDiscriminator(nn.Module):
    """A discriminator whose weights have norm one (Miyato et al. 2018), and a head that is split in length and way."""

    def __init__(self, channels: int = 32) -> None:
        super().__init__()
        self.body = nn.Sequential(
            spectral_norm(nn.Conv2d(3, channels, 3, 1, 1)),
            nn.LeakyReLU(0.1),
            spectral_norm(nn.Conv2d(channels, 2 * channels, 4, 2, 1)),
            nn.LeakyReLU(0.1),
        )
        self.head = weight_norm(nn.Linear(2 * channels, 1))

    def forward(self, real: Tensor, fake: Tensor) -> Tensor:
        on_real, on_fake = (self.head(self.body(each).sum((2, 3))) for each in (real, fake))
        return F.relu(1 - on_real).mean() + F.relu(1 + on_fake).mean()


@step("spectral norm", "weights that are computed from other parameters, with buffers that each call moves")
def _spectral_norm():
    return SpectralDiscriminator(), (torch.rand(8, 3, 24, 24), torch.rand(8, 3, 24, 24))


class Perceptual(nn.Module):
    """A picture made like another in what a frozen network sees (Johnson et al. 2016), caught by hooks."""

    def __init__(self) -> None:
        super().__init__()
        self.painter = nn.Sequential(
            nn.Conv2d(3, 32, 3, padding=1),
            nn.InstanceNorm2d(32, affine=True),
            nn.ReLU(True),
            nn.Conv2d(32, 3, 3, padding=1),
        )
        self.seen = tower()[:6].eval().requires_grad_(False)
        self.features: dict[str, Tensor] = {}
        for name, layer in self.seen.named_children():
            if isinstance(layer, nn.ReLU):
                layer.register_forward_hook(self.caught(name))

    def caught(self, name: str):
        def hook(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
            self.features[name] = output

        return hook

    @staticmethod
    def gram(x: Tensor) -> Tensor:
        flat = x.flatten(2)
        return flat @ flat.transpose(1, 2) / (flat.size(1) * flat.size(2))

    def forward(self, content: Tensor, style: Tensor) -> Tensor:
        self.seen(content)
        of_content = {name: each.clone() for name, each in self.features.items()}
        self.seen(style)
        of_style = {name: self.gram(each) for name, each in self.features.items()}
        self.seen(self.painter(content))
        loss = sum(F.mse_loss(each, of_content[name]) for name, each in self.features.items())
        return loss + 100 * sum(F.mse_loss(self.gram(each), of_style[name]) for name, each in self.features.items())


@step("perceptual loss", "features of a frozen network, put into a dict by forward hooks")
def _perceptual():
    return Perceptual(), (torch.rand(4, 3, 32, 32), torch.rand(4, 3, 32, 32))
