"""A program of Triton kernels in Triton's interpreter: a process of its own, since triton asks for it once."""

import json
import os
import subprocess
import sys
from typing import Any


def interpreted(program: str) -> Any:
    """What the program prints, as JSON."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
    )
    assert not done.returncode, done.stderr[-2000:]
    return json.loads(done.stdout)
