"""What is measured for this room: one module a recording, named after its JSON file."""

from ...experiment import Experiment

EXPERIMENTS = {
    "patterns_compiled": Experiment("the same for 1.3 B with compiled blocks, on few sequences", 180, in_bf16=True),
    "patterns_wide": Experiment("the same for 1.6 B in six wide layers, on 2 to 8 GPUs, predicted first", 110),
}
