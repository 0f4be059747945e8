"""Asks the CUDA build of torch which attention it would take on chips that are not here; no GPU and no driver needed.

    python -m venv ask && ask/bin/pip install "torch===2.13.0" numpy
    ask/bin/python tests/virtual_gpu/ask_torch.py tests/virtual_gpu/chosen_by_torch_2_13.json

The rules are compiled into libtorch_cuda and ask the CUDA runtime for a chip's capability: a small library of ours,
loaded first, answers. The tensors are fake. Needs g++ on Linux. Writes a letter a cell of `attention_cells.cells`, for
each capability: m(ath), f(lash), e(fficient), c(udnn), and - where torch refuses the call.
"""

import json
import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

CELLS, SEED = 1000, 1
CAPABILITIES = ("75", "80", "86", "89", "90", "100", "120")
LETTERS = {-1: "-", 0: "m", 1: "f", 2: "e", 3: "c"}  # SDPBackend
RUNTIME = r"""
#include <cuda_runtime_api.h>
#include <cstdlib>
#include <cstring>
static int capability() { return atoi(getenv("CAPABILITY")); }
extern "C" {
cudaError_t cudaGetDeviceCount(int* n) { *n = 1; return cudaSuccess; }
cudaError_t cudaGetDevice(int* device) { *device = 0; return cudaSuccess; }
cudaError_t cudaSetDevice(int) { return cudaSuccess; }
cudaError_t cudaDriverGetVersion(int* version) { *version = 13000; return cudaSuccess; }
cudaError_t cudaGetLastError() { return cudaSuccess; }
cudaError_t cudaDeviceGetStreamPriorityRange(int* a, int* b) { *a = *b = 0; return cudaSuccess; }
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* chip, int) {
  memset(chip, 0, sizeof *chip);
  chip->major = capability() / 10;
  chip->minor = capability() % 10;
  chip->warpSize = 32;
  return cudaSuccess;
}
}
"""
DRIVER = """
extern "C" int cuDevicePrimaryCtxGetState(int, unsigned* flags, int* active) { *flags = 0; *active = 1; return 0; }
"""


def library(source: str, path: Path, *include: str) -> Path:
    command = ["g++", "-shared", "-fPIC", "-O1", *include, "-x", "c++", "-", "-o", str(path)]
    subprocess.run(command, input=source, text=True, check=True)
    return path


def told(capability: str) -> str:
    """The letters for one capability, from a process of its own: torch asks for the chip once."""
    headers = next(found for each in sys.path if (found := Path(each, "triton/backends/nvidia/include")).is_dir())
    with tempfile.TemporaryDirectory() as folder:
        runtime = library(RUNTIME, Path(folder, "runtime.so"), f"-I{headers}")
        library(DRIVER, Path(folder, "libcuda.so.1"))
        ways = {"CAPABILITY": capability, "LD_PRELOAD": str(runtime), "LD_LIBRARY_PATH": folder}
        asked = [sys.executable, __file__]
        return subprocess.run(asked, env=os.environ | ways, text=True, check=True, stdout=subprocess.PIPE).stdout


def letter(cell: list) -> str:
    import attention_cells
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    on_cuda = torch._C.DispatchKeySet(torch._C.DispatchKey.CUDA)
    with FakeTensorMode():
        args, how = attention_cells.call(cell)
        causal, grouped = how["is_causal"], how["enable_gqa"]
        try:
            chosen = torch.ops.aten._fused_sdp_choice.default.redispatch(
                on_cuda, *args, how["dropout_p"], causal, scale=None, enable_gqa=grouped
            )
        except RuntimeError:  # "Invalid backend" where none takes it, "No viable backend" where all are switched off
            return "-"
    return LETTERS[chosen]


if __name__ == "__main__":
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(json.dumps({each: told(each) for each in CAPABILITIES}, indent=0) + "\n")
    else:
        import attention_cells

        warnings.simplefilter("ignore")
        print("".join(map(letter, attention_cells.cells(CELLS, SEED))), end="")
