"""What is measured for this room: one module a recording, named after its JSON file."""

from ...experiment import Experiment

EXPERIMENTS = {
    "checkpointing": Experiment(
        "checkpoint strategies and memory budgets on a GPT of 24 layers: bytes, work, time, fits", 240, in_bf16=True
    ),
    "checkpointing_compiled": Experiment(
        "the same for checkpoints under torch.compile, and further memory budgets", 210, in_bf16=True
    ),
}
