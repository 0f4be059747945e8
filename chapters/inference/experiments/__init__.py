"""What is measured for this room: one module a recording, named after its JSON file."""

from ...experiment import Experiment

EXPERIMENTS = {
    "grouped": Experiment(
        "a mixture of experts by loop and by grouped matmuls; errors against float64", 130, in_bf16=True
    ),
    "inference": Experiment(
        "a service that generates: prefill, decode, first requests, by mode; its roofline", 280, in_bf16=True
    ),
    "overhead": Experiment("what a call costs the host: guards, wrappers, CUDA graphs, packages", 90),
    "threads": Experiment("one compiled function called from 1 to 8 threads, each way of compiling it", 150),
}
