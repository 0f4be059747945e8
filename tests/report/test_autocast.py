"""What raises under autocast, and not without it, is the step's own: it is told as that, with its line and a cure."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from compile_lab.report.captured import ReportOptions, captured
from compile_lab.report.given import given
from compile_lab.report.model import card

pytestmark = pytest.mark.processes


class Ends(nn.Module):
    """A linear layer whose result, bfloat16 under autocast, goes into ``last``."""

    def __init__(self, last):
        super().__init__()
        self.linear, self.last = nn.Linear(8, 8), last

    def forward(self, x):
        return self.last(self.linear(x))


def wants_float32(h):
    assert h.dtype == torch.float32, "float32 is wanted here"
    return h.sum()


def told(last):
    return card("casts", captured(given(Ends(last), torch.randn(8, 8)), ReportOptions(limit_s=600), only=("casts",)))


@pytest.mark.parametrize(
    ("last", "said", "cure"),
    [
        (lambda h: F.binary_cross_entropy(h.sigmoid(), torch.ones_like(h)), "unsafe to autocast", "enabled=False"),
        (lambda h: torch.view_as_complex(h.view(-1, 4, 2)).abs().sum(), "view_as_complex is only", "`.float()`"),
        (lambda h: torch.quantile(h, 0.5), "quantile()", "`.float()`"),
        (wants_float32, "AssertionError: float32 is wanted here", "`.float()`"),
    ],
)
def test_an_error_of_autocast_is_a_finding_with_its_line(last, said, cure):
    found = told(last)
    assert found.severity == "bad" and said in found.verdict and "at test_autocast.py, line " in found.verdict
    assert found.verdict.endswith("Without it, the same step runs.") and cure in found.parts[0].text
