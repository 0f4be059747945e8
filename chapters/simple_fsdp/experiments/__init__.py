"""What is measured for this room: one module a recording, named after its JSON file."""

from ...experiment import Experiment

EXPERIMENTS = {
    "memory_fits": Experiment(
        "a batch that runs out of memory: which ways of training fit it, and what they cost", 220, in_bf16=True
    ),
    "overlap_scheduled": Experiment(
        "SimpleFSDP ordered by Inductor's own estimates, with buckets and without", 200, in_bf16=True
    ),
}
