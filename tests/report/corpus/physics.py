"""Steps on fields and equations: waves, residuals, fixed points, paths."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .parts import mlp
from .registry import step


class SpectralLayer(nn.Module):
    """Mixes channels wave by wave, the long ones only (Li et al. 2020)."""

    def __init__(self, channels: int, modes: int) -> None:
        super().__init__()
        self.channels, self.modes = channels, modes
        shape, scale = (channels, channels, modes, modes), 1 / channels**2
        self.low, self.high = (nn.Parameter(scale * torch.rand(shape, dtype=torch.cfloat)) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        waves, modes = torch.fft.rfft2(x), self.modes
        mixed = torch.zeros(
            x.shape[0], self.channels, x.size(-2), x.size(-1) // 2 + 1, dtype=torch.cfloat, device=x.device
        )
        mixed[:, :, :modes, :modes] = torch.einsum("bixy,ioxy->boxy", waves[:, :, :modes, :modes], self.low)
        mixed[:, :, -modes:, :modes] = torch.einsum("bixy,ioxy->boxy", waves[:, :, -modes:, :modes], self.high)
        return torch.fft.irfft2(mixed, s=(x.size(-2), x.size(-1)))


class FourierOperator(nn.Module):
    def __init__(self, channels: int = 20, modes: int = 6, layers: int = 3) -> None:
        super().__init__()
        self.into, self.out = nn.Linear(3, channels), mlp(channels, 64, 1, activation=nn.GELU)
        self.spectral = nn.ModuleList(SpectralLayer(channels, modes) for _ in range(layers))
        self.local = nn.ModuleList(nn.Conv2d(channels, channels, 1) for _ in range(layers))

    def forward(self, field: Tensor, wanted: Tensor) -> Tensor:
        side = torch.linspace(0, 1, field.shape[1], device=field.device)
        grid = torch.stack(torch.meshgrid(side, side, indexing="ij"), -1).expand(*field.shape, 2)
        x = self.into(torch.cat([field[..., None], grid], -1)).permute(0, 3, 1, 2)
        for spectral, local in zip(self.spectral, self.local, strict=True):
            x = F.gelu(spectral(x) + local(x))
        error = (self.out(x.permute(0, 2, 3, 1)).squeeze(-1) - wanted).flatten(1)
        return (error.norm(dim=1) / wanted.flatten(1).norm(dim=1)).mean()


@step("Fourier operator", "Fourier transforms of fields, complex parameters, slices written in place")
def _fourier_operator():
    return FourierOperator(), (torch.randn(4, 32, 32), torch.randn(4, 32, 32))


class Burgers(nn.Module):
    """A network that is held to an equation by its own derivatives (Raissi et al. 2017)."""

    def __init__(self, viscosity: float = 0.01 / torch.pi) -> None:
        super().__init__()
        self.viscosity, self.net = viscosity, mlp(2, 40, 40, 40, 1, activation=nn.Tanh)

    def residual(self, t: Tensor, x: Tensor) -> Tensor:
        u = self.net(torch.cat([t, x], dim=1))
        ones = torch.ones_like(u)
        u_t = torch.autograd.grad(u, t, ones, create_graph=True)[0]
        u_x = torch.autograd.grad(u, x, ones, create_graph=True)[0]
        u_xx = torch.autograd.grad(u_x, x, ones, create_graph=True)[0]
        return u_t + u * u_x - self.viscosity * u_xx

    def forward(self, inside: Tensor, edge: Tensor, values: Tensor) -> Tensor:
        t, x = inside[:, :1].clone().requires_grad_(True), inside[:, 1:].clone().requires_grad_(True)
        return self.residual(t, x).pow(2).mean() + F.mse_loss(self.net(edge), values)


@step("physics-informed network", "derivatives of the network, the second too, taken in the forward")
def _burgers():
    model = Burgers()
    edge = torch.rand(100, 2) * torch.tensor([0.0, 2.0]) - torch.tensor([0.0, 1.0])
    batch = {"inside": torch.rand(512, 2), "edge": edge, "values": -torch.sin(torch.pi * edge[:, 1:])}
    return model, batch, torch.optim.Adam(model.parameters(), lr=1e-3)


class EquilibriumCell(nn.Module):
    def __init__(self, channels: int, inner: int) -> None:
        super().__init__()
        self.first, self.second = (
            nn.Conv2d(channels, inner, 3, padding=1, bias=False),
            nn.Conv2d(inner, channels, 3, padding=1, bias=False),
        )
        self.norm1, self.norm2, self.norm3 = (nn.GroupNorm(8, size) for size in (inner, channels, channels))
        self.first.weight.data.normal_(0, 0.01)
        self.second.weight.data.normal_(0, 0.01)

    def forward(self, z: Tensor, x: Tensor) -> Tensor:
        y = self.norm1(F.relu(self.first(z)))
        return self.norm3(F.relu(z + self.norm2(x + self.second(y))))


class DeepEquilibrium(nn.Module):
    """A layer applied until it changes nothing, and a backward that solves for its gradient (Bai et al. 2019)."""

    def __init__(self, channels: int = 16, tolerance: float = 1e-3, most: int = 30) -> None:
        super().__init__()
        self.tolerance, self.most = tolerance, most
        self.into, self.cell = nn.Conv2d(3, channels, 3, padding=1), EquilibriumCell(channels, 32)
        self.head = nn.Linear(channels, 10)
        self.residuals: list[float] = []

    def solve(self, function, z: Tensor) -> Tensor:
        for _ in range(self.most):
            before, z = z, function(z)
            change = ((z - before).norm() / (1e-5 + z.norm())).item()
            self.residuals.append(change)
            if change < self.tolerance:
                break
        return z

    def fixed_point(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            z = self.solve(lambda z: self.cell(z, x), torch.zeros_like(x))
        z = self.cell(z, x)
        again = z.clone().detach().requires_grad_()
        value = self.cell(again, x)

        def backward_hook(gradient: Tensor) -> Tensor:
            return self.solve(lambda y: torch.autograd.grad(value, again, y, retain_graph=True)[0] + gradient, gradient)

        z.register_hook(backward_hook)
        return z

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        z = self.fixed_point(self.into(images))
        return F.cross_entropy(self.head(z.mean((2, 3))), labels)


@step("deep equilibrium", "a loop until a number is small, and a hook on the gradient that has another such loop")
def _deep_equilibrium():
    return DeepEquilibrium(), (torch.rand(4, 3, 16, 16), torch.randint(0, 10, (4,)))


class NeuralODE(nn.Module):
    """A path along a learned field (Chen et al. 2018), in steps as long as the error allows."""

    def __init__(self, tolerance: float = 1e-2) -> None:
        super().__init__()
        self.tolerance, self.field, self.evaluations = tolerance, mlp(3, 64, 64, 2, activation=nn.Tanh), 0

    def slope(self, t: float, y: Tensor) -> Tensor:
        self.evaluations += 1
        return self.field(torch.cat([y, torch.full_like(y[:, :1], t)], dim=1))

    def forward(self, start: Tensor, end: Tensor) -> Tensor:
        t, length, y = 0.0, 0.1, start
        while t < 1.0:
            length = min(length, 1.0 - t)
            first = self.slope(t, y)
            second = self.slope(t + length, y + length * first)
            error = (length / 2 * (second - first)).abs().max().item()
            if error <= self.tolerance or length < 1e-3:
                t, y = t + length, y + length / 2 * (first + second)
            length *= min(2.0, max(0.3, 0.9 * (self.tolerance / (error + 1e-12)) ** 0.5))
        return F.mse_loss(y, end)


@step("neural ODE", "steps of a length that the error decides, a count of evaluations on the module")
def _neural_ode():
    return NeuralODE(), (torch.randn(256, 2), torch.randn(256, 2))
