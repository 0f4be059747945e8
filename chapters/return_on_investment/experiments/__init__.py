"""What is measured for this room: one module a recording, named after its JSON file."""

from ...experiment import Experiment

EXPERIMENTS = {
    "payback": Experiment(
        "break-even predicted from two short runs, and the real crossing of two long ones", 115, in_bf16=True
    ),
    "regional": Experiment(
        "a model compiled whole, by the block, by region: 2 to 24 layers, 124 M to 1.5 B", 290, in_bf16=True
    ),
    "restarts": Experiment(
        "GPT-2 124M's training started again: what caches hold, what changed, after a kill", 380, in_bf16=True
    ),
    "restarts_cpu": Experiment(
        "MiniGPT's training started again: what caches hold, what changed, after a kill", 300, on_cpu=True
    ),
}
