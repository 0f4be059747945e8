"""What is measured for this room: one module a recording, named after its JSON file."""

from ...experiment import Experiment

EXPERIMENTS = {
    "hangs": Experiment("programs whose ranks part ways: what torch says, what is named, and cures", 240, on_cpu=True)
}
