"""What only a GPU runs is told of without one: kernels of the reader's own, cells of a GRU, rows that a mask takes."""

import pytest
import torch
from torch import nn

from compile_lab.report import report

triton = pytest.importorskip("triton", reason="no triton for this platform")

import triton.language as tl  # noqa: E402

pytestmark = pytest.mark.slow


@triton.jit
def _larger(value):
    return value * 2


@triton.autotune([triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 128})], key=["n"])
@triton.jit
def shares(out, x, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    row = tl.program_id(0) * n
    value = _larger(tl.load(x + row + at, at < n, other=-float("inf")))
    value = tl.exp(value - tl.max(value, 0))
    tl.store(out + row + at, value / tl.sum(value, 0), at < n)


class Shares(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        out = torch.empty_like(x)
        shares[(x.shape[0],)](out, x, x.shape[1])
        ctx.save_for_backward(out)
        return out

    @staticmethod
    def backward(ctx, grad):
        (out,) = ctx.saved_tensors
        return 2 * out * (grad - (grad * out).sum(-1, keepdim=True))


class WithKernel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.before = nn.Linear(16, 40)

    def forward(self, x):
        return Shares.apply(self.before(x)).square().sum()


def cards(model, *batch):
    torch.manual_seed(0)
    found = {card.name: card for card in report(model, batch).cards}
    assert not [name for name, card in found.items() if card.severity == "failed"]
    return found


def test_a_kernel_of_ones_own_is_interpreted_captured_and_written_for_the_chip():
    model, x = WithKernel(), torch.randn(8, 16)
    found = cards(model, x)
    assert found["breaks"].severity == "good"
    [listed] = [part for part in found["kernels"].parts if getattr(part, "columns", ("",))[0] == "kernel"]
    assert any(row[0].startswith("shares") for row in listed.rows)
    with pytest.raises(RuntimeError, match="driver"):  # outside of a report it needs its GPU as before
        model(x)


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cells = nn.GRU(8, 16, num_layers=2, batch_first=True, bidirectional=True)

    def forward(self, x):
        return self.cells(x)[0].mean()


def test_a_gru_runs_on_a_virtual_gpu_cell_by_cell():
    found = cards(Recurrent(), torch.randn(4, 6, 8))
    assert found["joint"].severity == found["saved"].severity == "bad"  # no graph is the finding, and no failure
    assert "No graph was captured" in found["joint"].verdict
    assert "matmuls stay in fp32" in found["casts"].verdict


class Masked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(16, 3)

    def forward(self, x, wanted, mask):
        return nn.functional.cross_entropy(self.out(x)[mask], wanted[mask])


def test_a_size_that_hangs_on_values_stays_a_symbol_through_the_backward():
    found = cards(Masked(), torch.randn(64, 16), torch.randint(3, (64,)), torch.rand(64) > 0.5)
    assert "kernels written by Inductor" in found["kernels"].verdict
