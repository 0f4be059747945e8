"""Steps on pictures: masks, pairs, queues, detectors, fields of light, quantised weights."""

import copy
import math
import random
from itertools import pairwise

import numpy
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.parametrizations import spectral_norm, weight_norm

from .parts import Block, mlp
from .registry import step

DIM = 64


def patches(images: Tensor, side: int = 4) -> Tensor:
    rows, channels, height, width = images.shape
    cut = images.reshape(rows, channels, height // side, side, width // side, side)
    return torch.einsum("nchpwq->nhwpqc", cut).reshape(rows, -1, side * side * channels)


class MaskedAutoencoder(nn.Module):
    """Three quarters of a picture's patches are left out and guessed (He et al. 2021)."""

    def __init__(self, left_out: float = 0.75) -> None:
        super().__init__()
        self.left_out = left_out
        self.embed, self.places = nn.Linear(48, DIM), nn.Parameter(torch.randn(1, 64, DIM) * 0.02)
        self.encoder, self.decoder = nn.Sequential(Block(DIM), Block(DIM)), Block(DIM)
        self.mask_token, self.head = nn.Parameter(torch.zeros(1, 1, DIM)), nn.Linear(DIM, 48)

    def random_masking(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        rows, length, dim = x.shape
        kept = int(length * (1 - self.left_out))
        shuffled = torch.argsort(torch.rand(rows, length, device=x.device), dim=1)
        restored = torch.argsort(shuffled, dim=1)
        seen = torch.gather(x, 1, shuffled[:, :kept].unsqueeze(-1).repeat(1, 1, dim))
        mask = torch.ones([rows, length], device=x.device)
        mask[:, :kept] = 0
        return seen, torch.gather(mask, 1, restored), restored

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        wanted = patches(images)
        seen, mask, restored = self.random_masking(self.embed(wanted) + self.places)
        seen = self.encoder(seen)
        blanks = self.mask_token.repeat(seen.shape[0], restored.shape[1] - seen.shape[1], 1)
        x = torch.cat([seen, blanks], dim=1)
        x = torch.gather(x, 1, restored.unsqueeze(-1).repeat(1, 1, x.shape[2]))
        guessed = self.head(self.decoder(x + self.places))
        wanted = (wanted - wanted.mean(-1, keepdim=True)) / (wanted.var(-1, keepdim=True) + 1e-6) ** 0.5
        loss = (((guessed - wanted) ** 2).mean(-1) * mask).sum() / mask.sum()
        return loss, guessed, mask


@step("masked autoencoder", "patches drawn by sorting noise, and put back by gather; the loss is the first of three")
def _masked_autoencoder():
    return MaskedAutoencoder(), torch.rand(8, 3, 32, 32)


class MaskedPatches(nn.Module):
    """The same by a mask of truth values (Xie et al. 2021): the masked are overwritten, and picked out."""

    def __init__(self, left_out: float = 0.6) -> None:
        super().__init__()
        self.left_out, self.embed = left_out, nn.Linear(48, DIM)
        self.mask_token, self.places = nn.Parameter(torch.zeros(DIM)), nn.Parameter(torch.randn(1, 64, DIM) * 0.02)
        self.encoder, self.head = nn.Sequential(Block(DIM), Block(DIM)), nn.Linear(DIM, 48)

    def forward(self, images: Tensor) -> Tensor:
        wanted = patches(images)
        x = self.embed(wanted)
        mask = torch.rand(x.shape[:2], device=x.device) < self.left_out
        x[mask] = self.mask_token
        guessed = self.head(self.encoder(x + self.places))
        return F.l1_loss(guessed[mask], wanted[mask])


@step("masked patches", "a boolean mask drawn in the forward, written to and read by")
def _masked_patches():
    return MaskedPatches(), torch.rand(8, 3, 32, 32)


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


class CLIP(nn.Module):
    """Pictures and their words side by side (Radford et al. 2021)."""

    def __init__(self) -> None:
        super().__init__()
        self.image, self.words = tower(), nn.Embedding(512, DIM)
        self.places, self.text = nn.Parameter(torch.randn(16, DIM) * 0.01), nn.Sequential(Block(DIM), Block(DIM))
        self.logit_scale = nn.Parameter(torch.ones([]) * math.log(1 / 0.07))

    def encode_text(self, text: Tensor) -> Tensor:
        x = self.text(self.words(text) + self.places[: text.shape[1]])
        return x[torch.arange(x.shape[0]), text.argmax(dim=-1)]

    def forward(self, image: Tensor, text: Tensor) -> Tensor:
        self.logit_scale.data.clamp_(0, math.log(100))
        images, texts = F.normalize(self.image(image), dim=-1), F.normalize(self.encode_text(text), dim=-1)
        logits = self.logit_scale.exp() * images @ texts.t()
        labels = torch.arange(len(logits), device=logits.device)
        return (F.cross_entropy(logits, labels) + F.cross_entropy(logits.t(), labels)) / 2


@step("CLIP pairs", "two towers, a temperature that is clamped through .data in the forward")
def _clip():
    return CLIP(), {"image": torch.rand(16, 3, 32, 32), "text": torch.randint(0, 512, (16, 12))}


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


class BYOL(nn.Module):
    """One network predicts what its own slow copy says of another view (Grill et al. 2020)."""

    def __init__(self, decay: float = 0.99) -> None:
        super().__init__()
        self.decay, self.online, self.predictor = decay, tower(), mlp(DIM, 128, DIM)
        self.target = copy.deepcopy(self.online)
        for parameter in self.target.parameters():
            parameter.requires_grad = False

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        with torch.no_grad():
            for fast, slow in zip(self.online.parameters(), self.target.parameters(), strict=True):
                slow.lerp_(fast, 1 - self.decay)
            wanted = [F.normalize(self.target(each), dim=-1) for each in (second, first)]
        said = [F.normalize(self.predictor(self.online(each)), dim=-1) for each in (first, second)]
        return sum(2 - 2 * (p * t.detach()).sum(-1) for p, t in zip(said, wanted, strict=True)).mean()


@step("BYOL", "a slow copy moved in the forward, batch norms updated twice in a call")
def _byol():
    return BYOL(), (torch.rand(16, 3, 32, 32), torch.rand(16, 3, 32, 32))


class Detector(nn.Module):
    """Boxes and classes on a grid; only the hardest of the empty places count (Liu et al. 2015)."""

    def __init__(self, classes: int = 5) -> None:
        super().__init__()
        self.classes = classes
        self.trunk = nn.Sequential(
            nn.Conv2d(3, 32, 3, 2, 1), nn.ReLU(inplace=True), nn.Conv2d(32, 64, 3, 2, 1), nn.ReLU(inplace=True)
        )
        self.scores, self.boxes = nn.Conv2d(64, classes + 1, 3, padding=1), nn.Conv2d(64, 4, 3, padding=1)

    def forward(self, images: Tensor, labels: Tensor, boxes: Tensor) -> dict[str, Tensor]:
        h = self.trunk(images)
        logits = self.scores(h).permute(0, 2, 3, 1).reshape(-1, self.classes + 1)
        guessed = self.boxes(h).permute(0, 2, 3, 1).reshape(-1, 4)
        labels, boxes = labels.view(-1), boxes.view(-1, 4)
        mask = labels > 0
        count = max(int(mask.sum()), 1)
        found = F.cross_entropy(logits[mask], labels[mask], reduction="sum")
        empty = F.cross_entropy(logits[~mask], labels[~mask], reduction="none")
        hardest, _ = empty.topk(min(3 * count, len(empty)))
        placed = F.smooth_l1_loss(guessed[mask], boxes[mask], reduction="sum")
        return {"loss": (found + hardest.sum() + placed) / count, "boxes": placed.detach(), "classes": found.detach()}


@step("detector", "losses over boolean masks, and as many of the hardest as there are objects")
def _detector():
    labels = torch.randint(1, 6, (4, 16, 16)) * (torch.rand(4, 16, 16) < 0.05)
    return Detector(), {"images": torch.rand(4, 3, 64, 64), "labels": labels, "boxes": torch.rand(4, 16, 16, 4)}


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


class DoubleConvolution(nn.Sequential):
    def __init__(self, into: int, out: int) -> None:
        super().__init__(
            nn.Conv2d(into, out, 3, padding=1, bias=False),
            nn.BatchNorm2d(out),
            nn.ReLU(inplace=True),
            nn.Conv2d(out, out, 3, padding=1, bias=False),
            nn.BatchNorm2d(out),
            nn.ReLU(inplace=True),
        )


class UNet(nn.Module):
    """Down, up, and across (Ronneberger et al. 2015); classes and overlap in the loss."""

    def __init__(self, classes: int = 3, channels: int = 16) -> None:
        super().__init__()
        sizes = [channels, 2 * channels, 4 * channels]
        self.downs = nn.ModuleList(map(DoubleConvolution, [3, *sizes[:-1]], sizes))
        self.ups = nn.ModuleList(DoubleConvolution(low + high, low) for low, high in pairwise(sizes))
        self.pool, self.head = nn.MaxPool2d(2), nn.Conv2d(channels, classes, 1)

    def forward(self, x: Tensor, wanted: Tensor) -> Tensor:
        skips = []
        for at, down in enumerate(self.downs):
            x = down(x if at == 0 else self.pool(x))
            skips.append(x)
        skips.pop()
        for up in reversed(self.ups):
            skip = skips.pop()
            x = F.interpolate(x, size=skip.shape[2:], mode="bilinear", align_corners=True)
            x = up(torch.cat([x, skip], dim=1))
        logits = self.head(x)
        chances, truth = logits.softmax(1), F.one_hot(wanted, logits.shape[1]).permute(0, 3, 1, 2).float()
        overlap = (2 * (chances * truth).sum((2, 3)) + 1) / ((chances + truth).sum((2, 3)) + 1)
        return F.cross_entropy(logits, wanted) + 1 - overlap.mean()


@step("U-Net", "skip connections in a list that shrinks")
def _unet():
    return UNet(), (torch.rand(2, 3, 50, 50), torch.randint(0, 3, (2, 50, 50)))


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


def drop_path(x: Tensor, share: float, training: bool) -> Tensor:
    if share == 0.0 or not training:
        return x
    kept = 1 - share
    mask = x.new_empty((x.shape[0],) + (1,) * (x.ndim - 1)).bernoulli_(kept)
    if kept > 0.0:
        mask.div_(kept)
    return x * mask


class DropPathBlock(nn.Module):
    def __init__(self, dim: int, share: float) -> None:
        super().__init__()
        self.share, self.norm1, self.norm2 = share, nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attention = nn.MultiheadAttention(dim, 4, batch_first=True)
        self.feed = mlp(dim, 4 * dim, dim, activation=nn.GELU)
        self.scale1, self.scale2 = (nn.Parameter(1e-4 * torch.ones(dim)) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm1(x)
        x = x + drop_path(self.scale1 * self.attention(h, h, h)[0], self.share, self.training)
        return x + drop_path(self.scale2 * self.feed(self.norm2(x)), self.share, self.training)


class VisionTransformer(nn.Module):
    """A transformer on patches (Dosovitskiy et al. 2020) that leaves out whole branches by chance."""

    def __init__(self, depth: int = 3, classes: int = 10) -> None:
        super().__init__()
        self.embed, self.token = nn.Conv2d(3, DIM, 4, 4), nn.Parameter(torch.zeros(1, 1, DIM))
        self.places = nn.Parameter(torch.randn(1, 65, DIM) * 0.02)
        self.blocks = nn.ModuleList(DropPathBlock(DIM, each.item()) for each in torch.linspace(0, 0.2, depth))
        self.norm, self.head = nn.LayerNorm(DIM), nn.Linear(DIM, classes)

    def forward(self, images: Tensor) -> Tensor:
        x = self.embed(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], dim=1) + self.places
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)[:, 0])


class MixedUp(nn.Module):
    """Pictures and their labels mixed in pairs (Zhang et al. 2017), by numpy's random numbers."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        share, order = numpy.random.beta(0.8, 0.8), torch.randperm(images.size(0))
        logits = self.model(share * images + (1 - share) * images[order])
        return share * F.cross_entropy(logits, labels) + (1 - share) * F.cross_entropy(logits, labels[order])


@step("ViT with drop path", "branches left out by chance, pictures mixed by numpy's random numbers")
def _vit():
    numpy.random.seed(0)
    return MixedUp(VisionTransformer()), (torch.rand(8, 3, 32, 32), torch.randint(0, 10, (8,)))


class NeRF(nn.Module):
    """Colours along rays through a field of light (Mildenhall et al. 2020)."""

    def __init__(self, samples: int = 24, frequencies: int = 6) -> None:
        super().__init__()
        self.samples, self.frequencies = samples, frequencies
        self.trunk, self.density = mlp(3 + 6 * frequencies, 64, 64, 64), nn.Linear(64, 1)
        self.colour = mlp(64 + 3, 32, 3)

    def encoded(self, x: Tensor) -> Tensor:
        waves = [x]
        for power in range(self.frequencies):
            waves += [torch.sin(2.0**power * x), torch.cos(2.0**power * x)]
        return torch.cat(waves, -1)

    def forward(self, origins: Tensor, directions: Tensor, colours: Tensor) -> Tensor:
        depths = torch.linspace(2.0, 6.0, self.samples).expand(len(origins), self.samples)
        middles = 0.5 * (depths[..., 1:] + depths[..., :-1])
        upper, lower = torch.cat([middles, depths[..., -1:]], -1), torch.cat([depths[..., :1], middles], -1)
        depths = lower + (upper - lower) * torch.rand(depths.shape)
        points = origins[:, None] + directions[:, None] * depths[..., None]
        h = F.relu(self.trunk(self.encoded(points)))
        viewed = F.normalize(directions, dim=-1)[:, None].expand(points.shape)
        rgb = torch.sigmoid(self.colour(torch.cat([h, viewed], -1)))
        gaps = torch.cat([depths[..., 1:] - depths[..., :-1], torch.Tensor([1e10]).expand(len(depths), 1)], -1)
        alpha = 1 - torch.exp(-F.relu(self.density(h)[..., 0]) * gaps)
        passed = torch.cumprod(torch.cat([torch.ones((len(alpha), 1)), 1.0 - alpha + 1e-10], -1), -1)[:, :-1]
        return ((((alpha * passed)[..., None] * rgb).sum(-2) - colours) ** 2).mean()


@step("NeRF", "depths along rays, noise and ones made on the CPU in the forward")
def _nerf():
    return NeRF(), {"origins": torch.randn(128, 3), "directions": torch.randn(128, 3), "colours": torch.rand(128, 3)}


class Rounded(torch.autograd.Function):
    """Rounds to a few steps; the gradient goes straight through where nothing was cut off (Bengio et al. 2013)."""

    @staticmethod
    def forward(ctx, x: Tensor, scale: Tensor, most: int) -> Tensor:
        ctx.save_for_backward(x.abs() <= scale * most)
        return torch.clamp(torch.round(x / scale), -most, most) * scale

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, None, None]:
        (inside,) = ctx.saved_tensors
        return gradient * inside, None, None


class QuantisedLinear(nn.Linear):
    """A layer that sees its weights and inputs as 8 bits would hold them (Jacob et al. 2017)."""

    def __init__(self, into: int, out: int, bits: int = 8) -> None:
        super().__init__(into, out)
        self.most = 2 ** (bits - 1) - 1
        self.register_buffer("range", torch.tensor(0.0))

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            most = x.detach().abs().max()
            self.range = most if self.range == 0 else 0.9 * self.range + 0.1 * most
        weight = Rounded.apply(self.weight, self.weight.detach().abs().max() / self.most, self.most)
        return F.linear(Rounded.apply(x, self.range / self.most, self.most), weight, self.bias)


class Quantised(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Flatten(),
            QuantisedLinear(784, 128),
            nn.ReLU(),
            QuantisedLinear(128, 128),
            nn.ReLU(),
            QuantisedLinear(128, 10),
        )

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(self.layers(images), labels)


@step("quantised training", "a straight-through gradient, a buffer that is replaced after it was asked for its value")
def _quantised():
    return Quantised(), (torch.randn(64, 1, 28, 28), torch.randint(0, 10, (64,)))


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
