"""What does not go together is refused."""

import pytest
import torch
from torch import nn

from chapters.activation_checkpointing import view as checkpointing_view
from chapters.shared import subjects
from compile_lab.checkpointing.plan import plans
from compile_lab.checkpointing.strategies import (
    Strategy,
    budgets,
    checkpointed,
    keeping,
)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Strategy("odd", every=0), "at least one block"),
        (lambda: Strategy("odd", keep=("mm",)), "set every"),
        (lambda: Strategy("odd", budget=0.5), "compiled=True"),
        (lambda: budgets([1.5]), "from 0 to 1"),
        (lambda: keeping(["linear"]), "below autograd"),
        (lambda: keeping(["no_such_operation"]), "below autograd"),
        (lambda: checkpointed(subjects.deep_mlp(2, 8), every=-1), "every=-1: a segment has at least one block"),
        (lambda: checkpointed(subjects.deep_mlp(2, 8), every=0), "every=0: a segment has at least one block"),
        (lambda: checkpointed(nn.Linear(2, 2)), "no ModuleList 'blocks'"),
        (lambda: plans(nn.Linear(2, 2), torch.ones(2), budgets=[2]), "from 0 to 1"),
        (lambda: checkpointing_view.curves([]), "none of these strategies has a memory budget"),
    ],
)
def test_what_does_not_go_together_is_refused(make, said):
    with pytest.raises(ValueError, match=said):
        make()
