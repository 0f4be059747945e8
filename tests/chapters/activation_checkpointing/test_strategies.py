"""What does not go together is refused."""

import pytest
import torch
from torch import nn

from chapters.activation_checkpointing import compared_view as compared
from chapters.activation_checkpointing.experiments.checkpointing import recorded
from chapters.shared import subjects
from compile_lab import recordings
from compile_lab.checkpointing.plan import plans
from compile_lab.checkpointing.strategies import Strategy, budgets, checkpointed, keeping

COSTS = recorded(*(recordings.load(name).result for name in ("checkpointing", "checkpointing_compiled")))


@pytest.mark.parametrize(
    ("make", "error", "word"),
    [
        (lambda: Strategy("odd", every=0), ValueError, "at least one"),
        (lambda: Strategy("odd", keep=("mm",)), ValueError, "every"),
        (lambda: Strategy("odd", budget=0.5), ValueError, "compiled=True"),
        (lambda: budgets([1.5]), ValueError, "from 0 to 1"),
        (lambda: keeping(["linear"]), ValueError, "autograd"),
        (lambda: keeping(["no_such_operation"]), ValueError, "autograd"),
        (lambda: checkpointed(subjects.deep_mlp(2, 8), every=0), ValueError, "every=0"),
        (lambda: checkpointed(nn.Linear(2, 2)), ValueError, "blocks"),
        (lambda: plans(nn.Linear(2, 2), torch.ones(2), budgets=[2]), ValueError, "from 0 to 1"),
        (lambda: compared.curves([]), ValueError, "budget"),
        (lambda: compared.tradeoff([]), ValueError, "at least one"),
        (lambda: compared.saved_grid({1.0: [7]}, 6), ValueError, "block"),
        (lambda: compared.kept_or_again({"none": COSTS["none"]}), KeyError, "every layer"),
    ],
)
def test_what_does_not_go_together_is_refused(make, error, word):
    with pytest.raises(error, match=word):
        make()
