"""The same for a GPU that is not here: ``run("H200", function, *args)`` in a child process with a pretended chip.

Inductor generates for it what it would generate for the real one, forward and backward, without a GPU, on the CPU
build of torch or a CUDA build. Nothing is launched there, and no time is ever reported.
"""

from compile_lab.virtual_gpu.chips import CHIPS, Chip, chip
from compile_lab.virtual_gpu.client import Interpreted, interpret, run
from compile_lab.virtual_gpu.errors import VirtualGPUError

__all__ = ["CHIPS", "Chip", "Interpreted", "VirtualGPUError", "chip", "interpret", "run"]
