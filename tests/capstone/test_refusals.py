"""What does not go is refused at once, by the name of the input."""

import math

import pytest
import torch

from capstone.hand import kernels
from capstone.hand.fp8 import Fp8Step
from capstone.hand.step import HandStep
from capstone.options import TrainingOptions
from capstone.steps import FunctionStep
from mini_model.model import GPTConfig, MiniGPT

SHAPE = {"vocabulary": 41, "context": 32, "dim": 64, "layers": 1, "heads": 4}


def made(step=HandStep, batch=2, length=32, tied=True, **options):
    return step(MiniGPT(GPTConfig(**SHAPE, tied_head=tied)), batch, length, **options)


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: made(tied=False), "tied_head"),
        (lambda: made(length=33), "length"),
        (lambda: made(kernels="cuda"), "kernels"),
        (lambda: made(kernels="triton"), "GPU"),
        (lambda: made(graph=True), "GPU"),
        (lambda: made(turned=("mlp",)), "mlp"),
        (lambda: made(Fp8Step, gradients_in=torch.bfloat16), "gradients_in"),
        (lambda: made(Fp8Step, forward=("tail",)), "tail"),
        (lambda: made().step(*2 * [torch.zeros(1, 32, dtype=torch.int64)]), "tokens"),
        (lambda: kernels.gelu(torch.zeros(32, 300), torch.zeros(300)), "width"),
        (lambda: FunctionStep(MiniGPT(GPTConfig(**SHAPE))), "tied_head"),
        (lambda: TrainingOptions(config="large"), "config"),
        (lambda: TrainingOptions(length=65), "length"),
        (lambda: TrainingOptions(decay=math.nan), "decay"),
        (lambda: TrainingOptions(budget=0.5, compile="default", checkpointing=True), "budget"),
    ],
)
def test_a_value_that_does_not_go_is_named(call, named):
    with pytest.raises(ValueError, match=named):
        call()
