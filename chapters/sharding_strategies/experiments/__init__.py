"""What is measured for this room: one module a recording, named after its JSON file."""

from ...experiment import Experiment

EXPERIMENTS = {
    "dtensor": Experiment(
        "every operator of torch's own tests under every DTensor placement, on real ranks", 880, on_cpu=True
    )
}
