"""A mixture of experts in place of an MLP: a router chooses a few experts for each token (Shazeer et al. 2017).

Every token gets all the experts that it chose, whatever the others chose: nothing is dropped. So how many rows an
expert computes is known only when the step runs. In bf16 one grouped matmul reads these numbers on the device, and
`torch.compile` takes the layer whole; in float32, for which torch compiles no grouped matmul, a loop reads them from
Python.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Mixture(nn.Module):
    """GELU(x up) down by the matrices of the experts that a token chooses, weighted by the softmax of their logits.

    x: float [..., dim]. The router computes in float32, under autocast too: a rounded logit is another choice.
    """

    def __init__(self, dim: int, experts: int, choices: int) -> None:
        super().__init__()
        self.choices = choices
        self.router = nn.Linear(dim, experts, bias=False)
        self.up = nn.Parameter(torch.empty(experts, dim, 4 * dim))
        self.down = nn.Parameter(torch.empty(experts, 4 * dim, dim))

    def forward(self, x: Tensor) -> Tensor:
        tokens = x.flatten(0, -2)
        with torch.autocast(x.device.type, enabled=False):
            logits, expert = F.linear(tokens.float(), self.router.weight.float()).topk(self.choices)
        order = expert.flatten().argsort(stable=True)  # assignments by expert: i is of token i // choices
        ones = torch.ones_like(order)
        counts = torch.zeros_like(ones[: self.router.out_features]).scatter_add(0, expert.flatten(), ones)
        rows = self.computed(tokens[order // self.choices], counts)
        weighted = rows * logits.softmax(-1).flatten()[order, None]
        return torch.zeros_like(tokens).index_add(0, order // self.choices, weighted.to(tokens.dtype)).view_as(x)

    def computed(self, rows: Tensor, counts: Tensor) -> Tensor:
        """What the experts make of rows [assignments, dim] that are sorted by expert, counts[e] of expert e."""
        return by_experts(rows, self.up, self.down, counts)


def by_experts(rows: Tensor, up: Tensor, down: Tensor, counts: Tensor) -> Tensor:
    """Each expert on its rows: [rows, dim] sorted by expert, up [experts, dim, hidden], counts int64 [experts].

    >>> import torch
    >>> from mini_model.mixture import by_experts
    >>> up, down = torch.ones(2, 1, 1), torch.tensor([[[1.0]], [[10.0]]])
    >>> by_experts(torch.full((3, 1), 9.0), up, down, torch.tensor([1, 2])).flatten()
    tensor([ 9., 90., 90.])
    """
    device = rows.device.type
    dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else rows.dtype
    if dtype == torch.bfloat16:
        ends = counts.cumsum(0).to(torch.int32)
        rows, up, down = rows.to(dtype), up.to(dtype), down.to(dtype)
        return F.grouped_mm(F.gelu(F.grouped_mm(rows, up, offs=ends), approximate="tanh"), down, offs=ends)
    parts = zip(rows.split(counts.tolist()), up, down, strict=True)
    return torch.cat([F.gelu(part @ wide, approximate="tanh") @ narrow for part, wide, narrow in parts])
