"""What is measured for this room: one module a recording, named after its JSON file."""

from ...experiment import Experiment

EXPERIMENTS = {"dispatch": Experiment("cost of eager dispatches: single operations, MiniGPT at growing batches", 25)}
