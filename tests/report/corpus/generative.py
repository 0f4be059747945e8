"""Steps that learn to make something: adversaries, mixtures."""

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


class GAN(nn.Module):
    """Both networks; it is the generator's turn (Goodfellow et al. 2014)."""

    def __init__(self) -> None:
        super().__init__()
        self.generator, self.discriminator = Generator(), Discriminator()

    def forward(self, real: Tensor) -> Tensor:
        fake = self.generator(torch.randn(real.size(0), NOISE, device=real.device))
        ones = torch.full((real.size(0),), 1.0, device=real.device)
        for parameter in self.discriminator.parameters():
            parameter.requires_grad = False
        return F.binary_cross_entropy_with_logits(self.discriminator(fake), ones)


@step("GAN generator", "an adversary's half of a step, with requires_grad of the other switched off in the forward")
def _gan_generator():
    model = GAN()
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
