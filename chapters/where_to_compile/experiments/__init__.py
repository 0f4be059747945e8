"""What is measured for this room: one module a recording, named after its JSON file."""

from ...experiment import Experiment

EXPERIMENTS = {
    "compile_orders": Experiment(
        "orders of TP, SP, checkpointing, compile, FSDP2 and DDP on 2 and 4 ranks; compiled pipeline stages",
        240,
        on_cpu=True,
    )
}
