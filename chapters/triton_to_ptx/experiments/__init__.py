"""What is measured for this room: one module a recording, named after its JSON file."""

from ...experiment import Experiment

EXPERIMENTS = {
    "integer_powers": Experiment("integer powers with a symbolic exponent, as compiled", 15),
    "softmax": Experiment(
        "softmax against copy: eager, generated, tuned, written by hand, at the same warps", 150, in_bf16=True
    ),
}
