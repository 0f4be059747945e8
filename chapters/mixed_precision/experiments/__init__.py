"""What is measured for this room: one module a recording, named after its JSON file."""

from ...experiment import Experiment

EXPERIMENTS = {
    "precision": Experiment("rates, errors, casts, training steps and losses in each precision", 120, in_bf16=True)
}
