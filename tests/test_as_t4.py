"""A GPU that torch takes for a T4, tried without a GPU: what is answered, and that importing torch starts nothing."""

import os
import subprocess
import sys
from pathlib import Path

import nbformat.v4 as v4
import pytest
from rehearse import KNOWN_WARNING, troubles_of

FOLDER = Path(__file__).resolve().parents[1] / "book/tools/as_t4"
ASKED = """
import torch
real = torch.cuda.get_device_properties.__closure__[0]
real.cell_contents = lambda device=None: type("H200", (), {"major": 9, "minor": 0, "warp_size": 32})()
from torch._dynamo.device_interface import CudaInterface
of = torch.cuda.get_device_properties(0)
print(torch.cuda.get_device_name(), torch.cuda.get_device_capability(), of.major, of.warp_size)
print(CudaInterface.get_compute_capability(), CudaInterface.get_device_properties(0).multi_processor_count)
print(torch.cuda.is_initialized())
torch.cuda.get_device_capability = lambda device=None: (8, 0)  # as a virtual A100 does
print(CudaInterface.get_compute_capability())
"""


@pytest.mark.processes
def test_torch_is_answered_as_by_a_t4_and_kernels_are_made_for_the_real_gpu():
    env = os.environ | {"PYTHONPATH": str(FOLDER)}
    run = subprocess.run([sys.executable, "-c", ASKED], env=env, capture_output=True, text=True, timeout=600)
    assert run.stdout.split("\n")[:4] == ["Tesla T4 (7, 5) 7 32", "90 40", "False", "80"], run.stderr


def test_what_preflight_has_said_is_no_trouble_and_what_comes_with_it_is():
    def cell(text):
        return v4.new_code_cell(outputs=[v4.new_output("stream", name="stderr", text=text)])

    logged = f"W1129 21:58:47 1531 torch/_inductor/utils.py:1731] [0/0] {KNOWN_WARNING}\n"
    assert not list(troubles_of(0, cell(logged)))
    assert list(troubles_of(3, cell(f"{logged}no space left\n"))) == ["cell 3 writes to stderr: no space left"]
