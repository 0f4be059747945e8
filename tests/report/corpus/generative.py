"""Steps that learn to make something: adversaries, diffusion, codes, flows, mixtures."""

import copy
import math

import torch
import torch.nn.functional as F
from torch import Tensor, distributions, nn

from .parts import mlp
from .registry import step

NOISE = 32


class Generator(nn.Module):
    """Noise to pictures of 16 by 16, by transposed convolutions (Radford et al. 2015)."""

    def __init__(self, channels: int = 32) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.ConvTranspose2d(NOISE, 2 * channels, 4, 1, 0, bias=False),
            nn.BatchNorm2d(2 * channels),
            nn.ReLU(True),
            nn.ConvTranspose2d(2 * channels, channels, 4, 2, 1, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(True),
            nn.ConvTranspose2d(channels, 3, 4, 2, 1, bias=False),
            nn.Tanh(),
        )

    def forward(self, z: Tensor) -> Tensor:
        return self.net(z[:, :, None, None])


class Discriminator(nn.Module):
    """A picture to one number."""

    def __init__(self, channels: int = 32) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, channels, 4, 2, 1, bias=False),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(channels, 2 * channels, 4, 2, 1, bias=False),
            nn.BatchNorm2d(2 * channels),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(2 * channels, 1, 4, 1, 0, bias=False),
        )

    def forward(self, image: Tensor) -> Tensor:
        return self.net(image).view(-1)


def set_requires_grad(net: nn.Module, wanted: bool) -> None:
    for parameter in net.parameters():
        parameter.requires_grad = wanted


def dcgan_init(module: nn.Module) -> None:
    kind = module.__class__.__name__
    if kind.find("Conv") != -1:
        nn.init.normal_(module.weight.data, 0.0, 0.02)
    elif kind.find("BatchNorm") != -1:
        nn.init.normal_(module.weight.data, 1.0, 0.02)
        nn.init.constant_(module.bias.data, 0)


class GAN(nn.Module):
    """Both networks; ``half`` says whose turn it is (Goodfellow et al. 2014)."""

    def __init__(self, half: str) -> None:
        super().__init__()
        self.half = half
        self.generator, self.discriminator = Generator().apply(dcgan_init), Discriminator().apply(dcgan_init)

    def forward(self, real: Tensor) -> Tensor:
        fake = self.generator(torch.randn(real.size(0), NOISE, device=real.device))
        ones = torch.full((real.size(0),), 1.0, device=real.device)
        if self.half == "generator":
            set_requires_grad(self.discriminator, False)
            return F.binary_cross_entropy_with_logits(self.discriminator(fake), ones)
        set_requires_grad(self.discriminator, True)
        on_real = F.binary_cross_entropy_with_logits(self.discriminator(real), ones)
        on_fake = F.binary_cross_entropy_with_logits(self.discriminator(fake.detach()), torch.zeros_like(ones))
        return (on_real + on_fake) * 0.5


@step("GAN discriminator", "an adversary's half of a step, on pictures that the other half has just made")
def _gan_discriminator():
    model = GAN("discriminator")
    optimizer = torch.optim.Adam(model.discriminator.parameters(), lr=2e-4, betas=(0.5, 0.999))
    return model, torch.rand(16, 3, 16, 16) * 2 - 1, optimizer


@step("GAN generator", "the other half, with requires_grad of the discriminator switched off in the forward")
def _gan_generator():
    model = GAN("generator")
    optimizer = torch.optim.Adam(model.generator.parameters(), lr=2e-4, betas=(0.5, 0.999))
    return model, torch.rand(16, 3, 16, 16) * 2 - 1, optimizer


class WassersteinCritic(nn.Module):
    """A critic whose gradient at its input is held to length one (Gulrajani et al. 2017)."""

    def __init__(self, weight: float = 10.0) -> None:
        super().__init__()
        self.weight = weight
        self.critic = mlp(64, 256, 256, 1, activation=nn.SiLU)
        self.generator = mlp(NOISE, 128, 64)

    def penalty(self, real: Tensor, fake: Tensor) -> Tensor:
        share = torch.rand(real.size(0), 1).to(real.device)
        between = (share * real + (1 - share) * fake).requires_grad_(True)
        score = self.critic(between)
        (slope,) = torch.autograd.grad(
            outputs=score, inputs=between, grad_outputs=torch.ones_like(score), create_graph=True, retain_graph=True
        )
        return ((slope.norm(2, dim=1) - 1) ** 2).mean()

    def forward(self, real: Tensor) -> Tensor:
        with torch.no_grad():
            fake = self.generator(torch.randn(real.size(0), NOISE, device=real.device))
        return self.critic(fake).mean() - self.critic(real).mean() + self.weight * self.penalty(real, fake)


@step("WGAN-GP", "a gradient inside of the loss, which is differentiated once more")
def _wgan_gp():
    model = WassersteinCritic()
    return model, torch.randn(64, 64), torch.optim.Adam(model.critic.parameters(), lr=1e-4, betas=(0.0, 0.9))


def time_embedding(t: Tensor, dim: int) -> Tensor:
    frequencies = torch.exp(-math.log(10000) * torch.arange(dim // 2, device=t.device) / (dim // 2))
    angles = t[:, None].float() * frequencies[None]
    return torch.cat([angles.sin(), angles.cos()], dim=-1)


class Denoiser(nn.Module):
    """Predicts the noise in a picture, and is told how much of it there is."""

    def __init__(self, channels: int = 32) -> None:
        super().__init__()
        self.channels = channels
        self.time = mlp(channels, 4 * channels, 2 * channels, activation=nn.SiLU)
        self.first = nn.Conv2d(1, channels, 3, padding=1)
        self.down = nn.Conv2d(channels, 2 * channels, 3, stride=2, padding=1)
        self.norm = nn.GroupNorm(8, 2 * channels)
        self.middle = nn.Conv2d(2 * channels, 2 * channels, 3, padding=1)
        self.up = nn.ConvTranspose2d(2 * channels, channels, 4, 2, 1)
        self.last = nn.Conv2d(2 * channels, 1, 3, padding=1)

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        skip = F.silu(self.first(x))
        h = F.silu(self.norm(self.down(skip) + self.time(time_embedding(t, self.channels))[:, :, None, None]))
        h = F.silu(self.up(F.silu(self.middle(h))))
        return self.last(torch.cat([h, skip], dim=1))


class Diffusion(nn.Module):
    """The simple loss of a diffusion model (Ho et al. 2020): time and noise are drawn in the forward."""

    def __init__(self, steps: int = 1000) -> None:
        super().__init__()
        self.steps, self.net = steps, Denoiser()
        kept = torch.cumprod(1 - torch.linspace(1e-4, 0.02, steps), dim=0)
        self.register_buffer("signal", kept.sqrt())
        self.register_buffer("noise", (1 - kept).sqrt())

    def forward(self, x: Tensor) -> Tensor:
        t = torch.randint(0, self.steps, (x.shape[0],), device=x.device).long()
        noise = torch.randn_like(x)
        noisy = self.signal[t][:, None, None, None] * x + self.noise[t][:, None, None, None] * noise
        return F.mse_loss(self.net(noisy, t), noise)


@step("diffusion", "time and noise drawn in the forward")
def _diffusion():
    return Diffusion(), torch.randn(8, 1, 28, 28)


class DiffusionWithAverage(Diffusion):
    """The same with a slow copy of the network, which each call moves a little."""

    def __init__(self, decay: float = 0.9999) -> None:
        super().__init__()
        self.decay, self.updates = decay, 0
        self.slow = copy.deepcopy(self.net).eval().requires_grad_(False)

    @torch.no_grad()
    def update(self) -> None:
        self.updates += 1
        decay = min(self.decay, (1 + self.updates) / (10 + self.updates))
        for slow, fast in zip(self.slow.parameters(), self.net.parameters(), strict=True):
            slow.mul_(decay).add_(fast, alpha=1 - decay)

    def forward(self, x: Tensor) -> Tensor:
        loss = super().forward(x)
        if self.training:
            self.update()
        return loss


@step("diffusion with an average", "a moving average of the parameters, made in the forward by a Python counter")
def _diffusion_average():
    model = DiffusionWithAverage()
    return model, torch.randn(8, 1, 28, 28), torch.optim.AdamW(model.net.parameters(), lr=2e-4)


class VAE(nn.Module):
    """A code with noise, and its price (Kingma and Welling 2013)."""

    def __init__(self, hidden: int = 256, code: int = 20) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Flatten(), nn.Linear(784, hidden), nn.ReLU())
        self.mean, self.log_variance = nn.Linear(hidden, code), nn.Linear(hidden, code)
        self.decoder = mlp(code, hidden, 784)

    def reparameterise(self, mean: Tensor, log_variance: Tensor) -> Tensor:
        if not self.training:
            return mean
        deviation = torch.exp(0.5 * log_variance)
        return mean + torch.randn_like(deviation) * deviation

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        h = self.encoder(x)
        mean, log_variance = self.mean(h), self.log_variance(h)
        made = torch.sigmoid(self.decoder(self.reparameterise(mean, log_variance)))
        reconstruction = F.binary_cross_entropy(made, x.view(-1, 784), reduction="sum")
        divergence = -0.5 * torch.sum(1 + log_variance - mean.pow(2) - log_variance.exp())
        return {"reconstruction": reconstruction, "divergence": divergence, "loss": reconstruction + divergence}


@step("VAE", "reparameterised noise, another path in eval mode, a dict of three losses")
def _vae():
    return VAE(), torch.rand(32, 1, 28, 28)


class VectorQuantiser(nn.Module):
    """Nearest codes by a moving average, and a gradient that goes straight through (van den Oord et al. 2017)."""

    def __init__(self, count: int = 128, dim: int = 32, decay: float = 0.99) -> None:
        super().__init__()
        self.decay = decay
        self.register_buffer("codes", torch.randn(count, dim))
        self.register_buffer("uses", torch.zeros(count))
        self.register_buffer("sums", self.codes.clone())

    def forward(self, z: Tensor) -> tuple[Tensor, Tensor, float]:
        flat = z.permute(0, 2, 3, 1).reshape(-1, z.shape[1])
        distances = flat.pow(2).sum(1, keepdim=True) - 2 * flat @ self.codes.t() + self.codes.pow(2).sum(1)
        nearest = distances.argmin(1)
        one_hot = F.one_hot(nearest, len(self.codes)).type(flat.dtype)
        if self.training:
            self.uses.data.mul_(self.decay).add_(one_hot.sum(0), alpha=1 - self.decay)
            self.sums.data.mul_(self.decay).add_(one_hot.t() @ flat.detach(), alpha=1 - self.decay)
            smoothed = (self.uses + 1e-5) / (self.uses.sum() + len(self.codes) * 1e-5) * self.uses.sum()
            self.codes.data.copy_(self.sums / smoothed.unsqueeze(1))
        quantised = F.embedding(nearest, self.codes).view(z.shape[0], *z.shape[2:], -1).permute(0, 3, 1, 2)
        commitment = F.mse_loss(quantised.detach(), z)
        share = one_hot.mean(0)
        perplexity = torch.exp(-(share * (share + 1e-10).log()).sum()).item()
        return z + (quantised - z).detach(), commitment, perplexity


class VQVAE(nn.Module):
    def __init__(self, dim: int = 32) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(3, dim, 4, 2, 1), nn.ReLU(inplace=True), nn.Conv2d(dim, dim, 4, 2, 1), nn.Conv2d(dim, dim, 1)
        )
        self.quantiser = VectorQuantiser(dim=dim)
        self.decoder = nn.Sequential(
            nn.ConvTranspose2d(dim, dim, 4, 2, 1), nn.ReLU(inplace=True), nn.ConvTranspose2d(dim, 3, 4, 2, 1)
        )
        self.history: list[float] = []

    def forward(self, x: Tensor) -> Tensor:
        quantised, commitment, perplexity = self.quantiser(self.encoder(x))
        self.history.append(perplexity)
        return F.mse_loss(self.decoder(quantised), x) + 0.25 * commitment


@step("VQ-VAE", "a codebook of buffers written to in the forward, and a list that grows by a number at each call")
def _vq_vae():
    return VQVAE(), torch.rand(8, 3, 32, 32)


class Coupling(nn.Module):
    """One half of the numbers scales and shifts the other (Dinh et al. 2016)."""

    def __init__(self, dim: int, odd: bool) -> None:
        super().__init__()
        mask = torch.zeros(dim)
        mask[odd::2] = 1
        self.register_buffer("mask", mask)
        self.scale, self.shift = mlp(dim, 128, 128, dim), mlp(dim, 128, 128, dim)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        kept = x * self.mask
        scale = torch.tanh(self.scale(kept)) * (1 - self.mask)
        return kept + (1 - self.mask) * (x * scale.exp() + self.shift(kept)), scale.sum(1)


class RealNVP(nn.Module):
    def __init__(self, dim: int = 16, layers: int = 6) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Coupling(dim, bool(each % 2)) for each in range(layers))
        self.register_buffer("mean", torch.zeros(dim))
        self.register_buffer("covariance", torch.eye(dim))

    def forward(self, x: Tensor) -> Tensor:
        log_det = torch.zeros(x.shape[0])
        for layer in self.layers:
            x, more = layer(x)
            log_det += more
        prior = distributions.MultivariateNormal(self.mean, self.covariance)
        return -(prior.log_prob(x) + log_det).mean()


@step("RealNVP", "a flow whose log-determinants add up in place, from zeros made on the CPU")
def _real_nvp():
    return RealNVP(), torch.randn(256, 16)


class ActNorm(nn.Module):
    """Scales and shifts channels; the first batch says by how much."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.shift, self.log_scale = (nn.Parameter(torch.zeros(1, channels, 1, 1)) for _ in range(2))
        self.register_buffer("initialised", torch.tensor(0, dtype=torch.uint8))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        if self.initialised.item() == 0:
            self.shift.data.copy_(-x.mean((0, 2, 3), keepdim=True))
            self.log_scale.data.copy_(-(x.std((0, 2, 3), keepdim=True) + 1e-6).log())
            self.initialised.fill_(1)
        return (x + self.shift) * self.log_scale.exp(), self.log_scale.sum() * x.shape[2] * x.shape[3]


class InvertibleConvolution(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.linalg.qr(torch.randn(channels, channels))[0])

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        log_det = torch.slogdet(self.weight)[1] * x.shape[2] * x.shape[3]
        return F.conv2d(x, self.weight[:, :, None, None]), log_det


class AffineCoupling(nn.Module):
    def __init__(self, channels: int, hidden: int = 32) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(channels // 2, hidden, 3, padding=1),
            nn.ReLU(inplace=True),
            nn.Conv2d(hidden, channels, 3, padding=1),
        )
        nn.init.zeros_(self.net[-1].weight)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        first, second = x.chunk(2, 1)
        log_scale, shift = self.net(first).chunk(2, 1)
        scale = torch.sigmoid(log_scale + 2)
        return torch.cat([first, (second + shift) * scale], 1), scale.log().sum((1, 2, 3))


class Glow(nn.Module):
    """Bits per dimension of pictures that are squeezed and mixed by invertible layers (Kingma and Dhariwal 2018)."""

    def __init__(self, channels: int = 12, depth: int = 3) -> None:
        super().__init__()
        self.flows = nn.ModuleList(
            each
            for _ in range(depth)
            for each in (ActNorm(channels), InvertibleConvolution(channels), AffineCoupling(channels))
        )

    def forward(self, image: Tensor) -> Tensor:
        x = F.pixel_unshuffle(image + torch.rand_like(image) / 256, 2)
        log_det = 0
        for flow in self.flows:
            x, more = flow(x)
            log_det = log_det + more
        log_prior = distributions.Normal(0, 1).log_prob(x).sum((1, 2, 3))
        return (-(log_prior + log_det) / (math.log(2) * image[0].numel())).mean() + 8


@step("Glow", "layers that set themselves from the first batch, and the log-determinant of a matrix")
def _glow():
    return Glow(), torch.rand(8, 3, 16, 16)


class MixtureDensity(nn.Module):
    """A mixture of Gaussians for each input (Bishop 1994)."""

    def __init__(self, mixtures: int = 8, size: int = 2) -> None:
        super().__init__()
        self.shape = (mixtures, size)
        self.trunk = mlp(4, 128, 128, activation=nn.Tanh)
        self.weights, self.means, self.scales = (
            nn.Linear(128, mixtures),
            nn.Linear(128, mixtures * size),
            nn.Linear(128, mixtures * size),
        )

    def forward(self, x: Tensor) -> distributions.Distribution:
        h = torch.tanh(self.trunk(x))
        means, scales = self.means(h).view(-1, *self.shape), F.softplus(self.scales(h)).view(-1, *self.shape) + 1e-4
        parts = distributions.Independent(distributions.Normal(means, scales), 1)
        return distributions.MixtureSameFamily(distributions.Categorical(logits=self.weights(h)), parts)


class Likelihood(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return -self.model(x).log_prob(y).mean()


@step("mixture density", "a forward that returns one of torch's distributions, which validate their arguments")
def _mixture_density():
    return Likelihood(MixtureDensity()), (torch.randn(512, 4), torch.randn(512, 2))
