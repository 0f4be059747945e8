"""What is measured for this room: one module a recording, named after its JSON file."""

from ...experiment import Experiment

EXPERIMENTS = {"fidelity": Experiment("kernels of this GPU against those of its virtual twin, source for source", 60)}
