"""torch's table of operators, and the length of a side in its samples."""

import subprocess
import sys

import pytest

ASKED_LATER = """
import torch
from compile_lab._torch.opinfo import operators, samples_with_sides_of

def shapes():
    return {tuple(each.input.shape) for each in operators()["softmax"].sample_inputs("cpu", torch.float32)}

with samples_with_sides_of(9):
    within = shapes()
print((9, 9) in within, (9, 9) in shapes())
"""


@pytest.mark.slow
def test_samples_have_the_side_also_where_the_table_is_first_asked_for_within_the_block():
    run = subprocess.run([sys.executable, "-c", ASKED_LATER], capture_output=True, text=True, timeout=600)
    assert run.stdout == "True False\n", run.stderr
