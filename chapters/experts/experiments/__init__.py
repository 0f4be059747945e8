"""What is measured for this room: one module a recording, named after its JSON file."""

from ...experiment import Experiment

EXPERIMENTS = {
    "expert_steps": Experiment("on which step each of 4 ranks compiles expert parallel, and a hang", 90, on_cpu=True)
}
