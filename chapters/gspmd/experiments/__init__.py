"""What is measured for this room: one module a recording, named after its JSON file."""

from ...experiment import Experiment

EXPERIMENTS = {
    "gspmd_gpu": Experiment(
        "a block in tensor parallel by XLA's pipeline for GPUs and by the one for CPUs: what is sent; 2 GPUs", 260
    )
}
