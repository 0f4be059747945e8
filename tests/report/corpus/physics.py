"""Steps on fields, tables and molecules: waves, fixed points, bags of numbers, forces."""

from dataclasses import dataclass

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


class DLRM(nn.Module):
    """Bags of categories and a few numbers, all against all (Naumov et al. 2019)."""

    def __init__(self, sizes: tuple[int, ...] = (1000, 500, 2000, 100), dense: int = 13, dim: int = 32) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(size, dim, mode="sum", sparse=False) for size in sizes)
        self.bottom, self.top = mlp(dense, 64, dim), mlp(dim + 10, 64, 1)

    def forward(self, dense: Tensor, indices: list[Tensor], offsets: list[Tensor], clicked: Tensor) -> Tensor:
        x = F.relu(self.bottom(dense))
        bags = [table(i, o) for table, i, o in zip(self.tables, indices, offsets, strict=True)]
        all_of_them = torch.stack([x, *bags], dim=1)
        products = torch.bmm(all_of_them, all_of_them.transpose(1, 2))
        rows, columns = torch.tril_indices(5, 5, offset=-1)
        logits = self.top(torch.cat([x, products[:, rows, columns]], dim=1)).squeeze(1)
        return F.binary_cross_entropy(torch.sigmoid(logits), clicked)


@step("DLRM", "bags of several sizes by offsets, in lists of tensors")
def _dlrm():
    indices, offsets = [], []
    for size in (1000, 500, 2000, 100):
        lengths = torch.randint(0, 6, (128,))
        indices.append(torch.randint(0, size, (int(lengths.sum()),)))
        offsets.append(torch.cat([torch.zeros(1, dtype=torch.long), lengths.cumsum(0)[:-1]]))
    model = DLRM()
    batch = (torch.rand(128, 13), indices, offsets, (torch.rand(128) < 0.3).float())
    return model, batch, torch.optim.Adagrad(model.parameters(), lr=0.01)


@dataclass
class Molecules:
    positions: Tensor
    numbers: Tensor
    energy: Tensor


class Interatomic(nn.Module):
    """An energy of atoms by their distances, whose slope is the force on each (Schuett et al. 2017)."""

    def __init__(self, dim: int = 32, gaussians: int = 16, cutoff: float = 2.5) -> None:
        super().__init__()
        self.cutoff = cutoff
        self.register_buffer("centres", torch.linspace(0, cutoff, gaussians))
        self.atoms, self.filters = nn.Embedding(20, dim), mlp(gaussians, dim, dim, activation=nn.Softplus)
        self.update, self.energy = mlp(dim, dim, dim, activation=nn.Softplus), mlp(dim, dim, 1, activation=nn.Softplus)

    def forward(self, molecules: Molecules, forces: Tensor) -> Tensor:
        positions = molecules.positions.requires_grad_(True)
        gaps = positions[:, :, None] - positions[:, None]
        near = (gaps.detach().norm(dim=-1) < self.cutoff) & ~torch.eye(positions.size(1), dtype=torch.bool)
        row, i, j = near.nonzero(as_tuple=True)
        distances = gaps[row, i, j].norm(dim=-1)
        h = self.atoms(molecules.numbers)
        waves = torch.exp(-10 * (distances[:, None] - self.centres) ** 2)
        heard = torch.zeros_like(h).index_put((row, i), h[row, j] * self.filters(waves), accumulate=True)
        energy = self.energy(h + self.update(heard)).sum((1, 2))
        (slope,) = torch.autograd.grad(energy.sum(), positions, create_graph=True)
        return F.mse_loss(energy, molecules.energy) + 10 * F.mse_loss(-slope, forces)


@step("forces of molecules", "forces as a gradient in the forward, pairs by nonzero, most of the batch in a dataclass")
def _forces():
    molecules = Molecules(torch.randn(8, 12, 3), torch.randint(1, 20, (8, 12)), torch.randn(8))
    return Interatomic(), {"molecules": molecules, "forces": torch.randn(8, 12, 3)}
