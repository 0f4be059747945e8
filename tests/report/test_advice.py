"""What the reader of a part that failed is told: why, where, and the way out."""

from pathlib import Path

import pytest
import torch
from torch import nn

import compile_lab.report
from compile_lab.report.advice import OTHERWISE, advice, cure_of
from compile_lab.report.captured import ReportOptions, captured
from compile_lab.report.given import given
from compile_lab.report.model import card
from compile_lab.virtual_gpu.errors import VirtualGPUError

pytestmark = pytest.mark.processes

RAISED = """Traceback (most recent call last):
  File "/somewhere/site-packages/torch/_dynamo/exc.py", line 723, in unimplemented
    raise Unsupported(
torch._dynamo.exc.TorchRuntimeError: Tensor device mismatch

from user code:
   File "/home/model.py", line 12, in forward
    return (self.l(x) * scale).sum()
"""


def test_a_tensor_made_on_the_cpu_in_the_forward_is_told_with_its_line_and_its_cure():
    error = VirtualGPUError("Tensor device mismatch\nHint: move it", "TorchRuntimeError", RAISED)
    why, todo = advice(error, 60)
    assert why == "at model.py, line 12: VirtualGPUError: Tensor device mismatch Hint: move it"
    assert "device=x.device" in todo and "register_buffer" in todo


def test_what_is_not_known_keeps_torchs_words():
    assert advice(RuntimeError("odd"), 60) == ("RuntimeError: odd", OTHERWISE)


def test_no_report_offers_what_chapter_08_saw_change_gradients():
    """A memory budget below 1 draws another mask of dropout in the backward."""
    texts = [file.read_text() for file in Path(compile_lab.report.__file__).parent.glob("*.py")]
    assert not any("memory_budget" in text or "memory budget" in text for text in texts)


class Slopes(nn.Module):
    """The square of a network's slope, which its loss differentiates again; `slope` is how it is taken."""

    def __init__(self, slope):
        super().__init__()
        self.net, self.slope = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1)), slope

    def forward(self, x):
        return (self.slope(self.net, x) ** 2).mean()


def by_func(net, x):
    return torch.func.jvp(net, (x,), (torch.ones_like(x),))[1]


@torch.compiler.disable
def out_of_the_graph(net, x):
    point = x.detach().requires_grad_()
    return torch.autograd.grad(net(point).sum(), point, create_graph=True)[0]


@pytest.mark.parametrize("cured", [by_func, out_of_the_graph])
def test_the_cures_of_a_second_derivative_train_what_eager_trains(cured):
    """The cures are tried before they are offered: compiled, each gives eager's gradients."""
    x = torch.linspace(-1, 1, 8)[:, None]
    torch.manual_seed(0)
    model = Slopes(cured)
    torch.compiler.reset()
    trained = list(model.parameters())[:3]  # no slope hangs on the last bias
    compiled = torch.autograd.grad(torch.compile(model)(x), trained)
    eager = torch.autograd.grad(model(x), trained)
    for one, other in zip(compiled, eager, strict=True):
        torch.testing.assert_close(one, other)
    assert "torch.func.jvp" in cure_of("torch.compile with aot_autograd does not currently support double backward")


class Scattered(nn.Module):
    """Sums rows into a table that is made in float32, whatever the rows are."""

    def __init__(self, dtype_of_rows):
        super().__init__()
        self.linear, self.dtype_of_rows = nn.Linear(8, 8), dtype_of_rows

    def forward(self, x, at):
        rows = self.linear(x)
        table = torch.zeros(16, 8, device=x.device, dtype=rows.dtype if self.dtype_of_rows else None)
        return table.scatter_reduce(0, at[:, None].expand_as(rows), rows, "sum").square().mean()


@pytest.mark.slow
@pytest.mark.parametrize(("sound", "severity"), [(False, "bad"), (True, "good")])
def test_a_step_that_autocast_breaks_is_told_with_torchs_words(sound, severity):
    batch = torch.randn(32, 8), torch.arange(32) % 16
    found = captured(given(Scattered(sound), batch), ReportOptions(limit_s=600), only=("code", "casts"))
    told = card("casts", found)
    assert told.severity == severity
    assert sound or ("scatter" in told.verdict and "dtype" in told.verdict and "test_advice.py" in told.verdict)
    with torch.autocast("cpu", torch.bfloat16):
        if sound:
            Scattered(sound)(*batch)
        else:
            with pytest.raises(RuntimeError, match="dtype"):
                Scattered(sound)(*batch)
