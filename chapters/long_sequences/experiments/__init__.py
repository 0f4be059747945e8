"""What is measured for this room: one module a recording, named after its JSON file."""

from ...experiment import Experiment

EXPERIMENTS = {
    "context_parallel": Experiment(
        "torch's context parallel on all GPUs of a host: causal attention in order and head-tail, all-gather and ring",
        60,
    )
}
