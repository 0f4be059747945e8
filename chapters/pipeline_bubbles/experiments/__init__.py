"""What is measured for this room: one module a recording, named after its JSON file."""

from ...experiment import Experiment

EXPERIMENTS = {
    "pipeline": Experiment("pipeline schedules over several GPUs: steps predicted and measured, bubbles, memory", 190)
}
