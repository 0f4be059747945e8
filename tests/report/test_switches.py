"""Numbers and sizes that hang on values: what the report says of torch's switches, it has tried."""

import torch
from torch import nn

from compile_lab.dynamo import trace
from compile_lab.report.given import given
from compile_lab.report.switches import switched

ROWS = torch.randn(32, 8, generator=torch.Generator().manual_seed(0))


class Routed(nn.Module):
    """Experts that take the rows a router gives them."""

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(8, 2)
        self.experts = nn.ModuleList(nn.Linear(8, 8) for _ in range(2))

    def forward(self, x):
        to, out = self.router(x).argmax(-1), torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            rows = (to == number).nonzero()[:, 0]
            if rows.numel() == 0:
                continue
            out = out.index_add(0, rows, expert(x[rows]))
        return out.square().mean()


class ByCount(Routed):
    def forward(self, x):
        count = int((x[:, 0] > 0).sum())
        if count > 3:
            return self.router(x * 2).square().mean()
        return self.router(x).square().mean()


def tried(model, *args):
    subject = given(model, args)
    return switched(subject, trace(subject.model, *subject.args))


def test_a_branch_on_emptiness_is_taken_away_for_the_try_alone():
    found = tried(Routed(), ROWS)
    assert found.switches == ("capture_dynamic_output_shape_ops",)
    assert [each.source for each in found.alone.breaks] == ["if rows.numel() == 0:"]
    assert [each.source for each in found.branches] == ["if rows.numel() == 0:"]
    assert len(found.together.graphs) == 1 and not found.together.breaks
    again = trace(Routed(), ROWS)
    assert [each.reason for each in again.breaks] == ["Dynamic shape operator"]  # the class is what it was


def test_a_branch_on_a_number_stays():
    found = tried(ByCount(), ROWS)
    assert not found.branches and found.together is found.alone
    assert [each.source for each in found.alone.breaks] == ["if count > 3:"]
