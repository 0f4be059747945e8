"""What is measured for this room: one module a recording, named after its JSON file."""

from ...experiment import Experiment

EXPERIMENTS = {
    "backward_control": Experiment(
        "the backward of a norm of GELU, tanh-GELU and ReLU, and of GELU alone", 90, in_bf16=True
    ),
    "backward_fusion": Experiment(
        "LayerNorm(GELU(xW+b)) and its backward over shapes, kernel by kernel", 150, in_bf16=True
    ),
}
