"""What strategies cost: gradients of whatever model is handed over."""

import torch
from torch import nn

from compile_lab.checkpointing import NONE, Subject, measured, reference


class OneIsUnused(nn.Module):
    def __init__(self):
        super().__init__()
        self.used, self.unused = nn.Linear(4, 1), nn.Linear(4, 1)

    def forward(self, x):
        return self.used(x)


def test_a_parameter_that_gets_no_gradient_has_none_to_compare():
    subject = Subject(OneIsUnused(), (torch.ones(4),), "cpu")
    gradients, _ = reference(subject)
    assert sorted(gradients) == ["used.bias", "used.weight"]
    assert measured(subject, NONE, gradients).gradient_error == 0.0
