"""Triton's interpreter as it ships, beside `interpret_kernel`: a process of its own, with TRITON_INTERPRET=1."""

import os
import pickle
import subprocess
import sys
from typing import Any

import cloudpickle
from torch import Tensor

from compile_lab.virtual_gpu.kernels import hand_written

_CHILD = """
import pickle, sys
kernel, arguments, constants = pickle.load(sys.stdin.buffer)
kernel.made()[1,](*arguments, **constants)
pickle.dump(arguments[0], sys.stdout.buffer)
"""


def as_triton_interprets(kernel: Any, out: Tensor, *inputs: Tensor, **constants: int) -> Tensor:
    """``out`` as one program of the kernel leaves it. RuntimeError, in Python's last line, if the process fails."""
    body = cloudpickle.dumps((hand_written(kernel), (out, *inputs), constants))
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    ran = subprocess.run([sys.executable, "-c", _CHILD], input=body, capture_output=True, env=environment, timeout=600)
    if ran.returncode:
        raise RuntimeError(f"Triton's interpreter ended: {ran.stderr.decode().strip().splitlines()[-1:]}")
    return pickle.loads(ran.stdout)
