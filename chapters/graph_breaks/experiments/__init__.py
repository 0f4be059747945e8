"""What is measured for this room: one module a recording, named after its JSON file."""

from ...experiment import Experiment

EXPERIMENTS = {
    "break_atlas": Experiment("kinds of graph break: a trigger of each and its cure, run", 20, on_cpu=True),
    "graph_breaks": Experiment("time of a pointwise chain with 0 to 7 graph breaks", 30),
}
