"""What is measured for this room: one module a recording, named after its JSON file."""

from ...experiment import Experiment

EXPERIMENTS = {
    "numerics": Experiment("eager and compiled against float64: operators and chains", 120, in_bf16=True),
    "numerics_modes": Experiment("chains in the modes of numerics of torch 2.15", 60, on_cpu=True),
    "rulers": Experiment("compiled steps, right and wrong, by a tolerance and by units of rounding", 240, on_cpu=True),
    "wrong_gradient": Experiment(
        "a diffusion transformer trained with a gradient that nothing wrote", 300, in_bf16=True
    ),
}
