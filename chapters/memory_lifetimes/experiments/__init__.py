"""What is measured for this room: one module a recording, named after its JSON file."""

from ...experiment import Experiment

EXPERIMENTS = {
    "peaks": Experiment("peak memory predicted and measured: MiniGPT and GPT-2, eager to compiled", 120, in_bf16=True)
}
