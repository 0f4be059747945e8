"""What is measured for this room: one module a recording, named after its JSON file."""

from ...experiment import Experiment

EXPERIMENTS = {
    "flex": Experiment(
        "attention against length: masks as functions, in a tensor, every score; time and memory", 320, in_bf16=True
    )
}
