"""The chapter's kernels through all stages: nothing of this machine is in them, and what cannot be is said."""

import re
import types

import pytest
import torch

triton = pytest.importorskip("triton", reason="no triton for this platform")

from chapters.triton_to_ptx.experiments.softmax_kernel import persistent_kernel, row_kernel  # noqa: E402
from compile_lab.virtual_gpu.assembly import Config, assemble  # noqa: E402
from compile_lab.virtual_gpu.errors import VirtualGPUError  # noqa: E402

ROW = {"out": "*bf16", "x": "*bf16", "columns": 4096}


@pytest.fixture(scope="module")
def row():
    return assemble(row_kernel, "H200", Config({"BLOCK": 4096}, 4), arguments=ROW)


def test_nothing_of_this_machine_is_in_the_code(row):
    for stage in ("ttir", "ttgir", "llir", "ptx", "sass"):
        assert not re.search(r"/(tmp|home|root|work|site-packages)\b", row.code(stage)), stage


WIDE = {"out": "*fp32", "x": "*fp32", "rows": 8, "columns": 32768}
CPP = types.SimpleNamespace(source='extern "C"', language="cpp")


def row_with(blocks, arguments=ROW):
    return assemble(row_kernel, "H200", Config(blocks), arguments=arguments)


@pytest.mark.parametrize(
    ("call", "error", "word"),
    [
        (lambda: assemble(row_kernel, "H200"), ValueError, "Config"),
        (lambda: assemble(row_kernel, "H200", Config({"BLOCK": 64})), ValueError, "arguments="),
        (lambda: assemble(CPP, "H200"), TypeError, "cpp"),
        (lambda: row_with({"BLOK": 64}), ValueError, "BLOCK, and gives BLOK"),
        (lambda: row_with({"BLOCK": 64}, {"out": "*bf16"}), ValueError, "out, x, columns"),
        (lambda: row_with({"BLOCK": 64}, {**ROW, "x": "float"}), ValueError, "'float'"),
        (lambda: row_with({"BLOCK": 100}), VirtualGPUError, "power of 2"),
        (
            lambda: assemble(persistent_kernel, "A100", Config({"BLOCK": 32768, "STAGES": 4}, 32), arguments=WIDE),
            VirtualGPUError,
            "shared memory .* 166,912",
        ),
        (lambda: Config({}, num_stages=0), ValueError, "num_stages"),
    ],
)
def test_what_cannot_be_is_said(call, error, word):
    with pytest.raises(error, match=word):
        call()


def test_this_process_keeps_its_own_triton(row):
    with pytest.raises(RuntimeError, match="driver"):
        if torch.cuda.is_available():
            raise RuntimeError("a real driver")
        triton.runtime.driver.active.get_current_target()
