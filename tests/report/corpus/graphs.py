"""Steps on graphs, tables and molecules: sums over edges, kinds of nodes, bags of numbers."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .parts import mlp
from .registry import step


class GraphLayer(nn.Module):
    """A node adds up its neighbours (Xu et al. 2018)."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.own, self.mlp, self.norm = nn.Parameter(torch.zeros(1)), mlp(dim, 2 * dim, dim), nn.BatchNorm1d(dim)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        source, target = edges
        heard = torch.zeros_like(x).index_add_(0, target, x[source])
        return F.relu(self.norm(self.mlp((1 + self.own) * x + heard)))


class GraphNetwork(nn.Module):
    def __init__(self, features: int = 16, dim: int = 64, classes: int = 4) -> None:
        super().__init__()
        self.into, self.layers = nn.Linear(features, dim), nn.ModuleList(GraphLayer(dim) for _ in range(3))
        self.head = nn.Linear(dim, classes)

    def forward(self, x: Tensor, edge_index: Tensor, graph: Tensor, y: Tensor) -> Tensor:
        x = self.into(x)
        for layer in self.layers:
            x = layer(x, edge_index)
        graphs = int(graph.max()) + 1
        sums = torch.zeros(graphs, x.size(1), device=x.device).scatter_add(0, graph[:, None].expand_as(x), x)
        return F.cross_entropy(self.head(sums / graph.bincount(minlength=graphs)[:, None]), y)


@step("graph network", "sums over edges by index, and as many graphs as the largest number says")
def _graph_network():
    graph = torch.arange(8).repeat_interleave(25)
    edges = torch.randint(0, 25, (2, 800)) + 25 * torch.arange(8).repeat_interleave(100)
    batch = {"x": torch.randn(200, 16), "edge_index": edges, "graph": graph, "y": torch.randint(0, 4, (8,))}
    return GraphNetwork(), batch


class Graph(NamedTuple):
    x: Tensor
    edges: Tensor
    labels: Tensor
    known: Tensor


class GraphAttention(nn.Module):
    """Neighbours weighed by a softmax over each node's edges (Velickovic et al. 2017)."""

    def __init__(self, into: int, out: int, heads: int = 4) -> None:
        super().__init__()
        self.heads, self.out, self.linear = heads, out, nn.Linear(into, heads * out, bias=False)
        self.from_source, self.to_target = (nn.Parameter(torch.randn(1, heads, out) * 0.1) for _ in range(2))

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        source, target = edges[0], edges[1]
        h = F.dropout(self.linear(x), 0.2, self.training).view(-1, self.heads, self.out)
        scores = (h * self.from_source).sum(-1)[source] + (h * self.to_target).sum(-1)[target]
        scores, at = F.leaky_relu(scores, 0.2), target[:, None].expand(-1, self.heads)
        highest = scores.new_full((len(x), self.heads), float("-inf")).scatter_reduce(0, at, scores, "amax")
        weights = (scores - highest.detach()[target]).exp()
        total = torch.zeros_like(highest).scatter_add_(0, at, weights)
        weights = F.dropout(weights / (total[target] + 1e-16), 0.2, self.training)
        mixed = torch.zeros_like(h).index_add_(0, target, h[source] * weights[..., None])
        return mixed.flatten(1)


class GraphAttentionNetwork(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = GraphAttention(32, 16), GraphAttention(64, 7, heads=1)

    def forward(self, graph: Graph) -> Tensor:
        h = self.second(F.elu(self.first(graph.x, graph.edges)), graph.edges)
        return F.cross_entropy(h[graph.known], graph.labels[graph.known])


@step("graph attention", "a softmax over each node's edges, a named tuple as the only argument, labels by mask")
def _graph_attention():
    edges = torch.cat([torch.randint(0, 300, (2, 1200)), torch.arange(300).repeat(2, 1)], dim=1)
    graph = Graph(torch.randn(300, 32), edges, torch.randint(0, 7, (300,)), torch.rand(300) < 0.3)
    return GraphAttentionNetwork(), (graph,)


class RelationalNetwork(nn.Module):
    """Users and things, and what the one did with the other; a layer for each relation (Schlichtkrull et al. 2017)."""

    def __init__(self, sizes: dict[str, int], relations: list[tuple[str, str, str]], dim: int = 48) -> None:
        super().__init__()
        self.into = nn.ModuleDict({kind: nn.Linear(size, dim) for kind, size in sizes.items()})
        self.relations = nn.ModuleDict({"__".join(each): nn.Linear(dim, dim) for each in relations})
        self.score = nn.Bilinear(dim, dim, 1)

    def forward(
        self, x: dict[str, Tensor], edges: dict[tuple[str, str, str], Tensor], asked: Tensor, stars: Tensor
    ) -> Tensor:
        h = {kind: F.relu(self.into[kind](each)) for kind, each in x.items()}
        heard = {kind: torch.zeros_like(each) for kind, each in h.items()}
        for relation, (source, target) in edges.items():
            start, _, end = relation
            heard[end] = heard[end].index_add(0, target, self.relations["__".join(relation)](h[start])[source])
        h = {kind: F.layer_norm(each + heard[kind], each.shape[1:]) for kind, each in h.items()}
        return F.mse_loss(self.score(h["user"][asked[0]], h["thing"][asked[1]]).squeeze(-1), stars)


@step("relational graph", "nodes and edges in dicts, one of them with tuples as keys")
def _relational_graph():
    relations = [("user", "rated", "thing"), ("thing", "rated_by", "user"), ("user", "follows", "user")]
    sizes, counts = {"user": 12, "thing": 20}, {"user": 150, "thing": 90}
    x = {kind: torch.randn(counts[kind], size) for kind, size in sizes.items()}
    edges = {
        each: torch.stack([torch.randint(0, counts[each[0]], (400,)), torch.randint(0, counts[each[2]], (400,))])
        for each in relations
    }
    asked = torch.stack([torch.randint(0, 150, (64,)), torch.randint(0, 90, (64,))])
    batch = {"x": x, "edges": edges, "asked": asked, "stars": torch.rand(64) * 5}
    return RelationalNetwork(sizes, relations), batch


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
