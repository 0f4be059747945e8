"""The chapter's kernels through all stages: which line came from which, registers, refusals."""

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


def line_of(assembly, text):
    return next(n for n, line in enumerate(assembly.source.splitlines(), 1) if text in line)


def test_a_line_is_followed_through_all_stages(row):
    load, exp = line_of(row, "tl.load"), line_of(row, "tl.exp2")
    for stage, word in {"ttir": "tt.load", "ttgir": "tt.load", "ptx": "ld.global", "sass": "LDG"}.items():
        texts = row.code(stage).splitlines()
        here = [n for n, text in enumerate(texts, 1) if word in text]
        assert here and set(here) <= set(row.lines[stage][load]), stage
    shuffles = [n for n, text in enumerate(row.ptx.splitlines(), 1) if "shfl" in text]
    assert set(shuffles) & set(row.lines["ptx"][exp]), "tl.max is inlined: its code belongs to the line that calls it"


def test_a_line_of_a_stage_came_from_one_line(row):
    for stage, lines in row.lines.items():
        found = [n for each in lines.values() for n in each]
        assert len(found) == len(set(found)), stage


def test_nothing_of_this_machine_is_in_the_code(row):
    for stage in ("ttir", "ttgir", "llir", "ptx", "sass"):
        assert not re.search(r"/(tmp|home|root|work|site-packages)\b", row.code(stage)), stage


WIDE = {"out": "*fp32", "x": "*fp32", "rows": 8, "columns": 32768}
CPP = types.SimpleNamespace(source='extern "C"', language="cpp")


def row_with(blocks, arguments=ROW, chip="H200"):
    return assemble(row_kernel, chip, Config(blocks), arguments=arguments)


@pytest.mark.parametrize(
    ("call", "error", "word"),
    [
        (lambda: row_with({"BLOCK": 64}, chip="B300"), ValueError, "H200"),
        (lambda: assemble(row_kernel, "H200"), ValueError, "Config"),
        (lambda: assemble(row_kernel, "H200", Config({"BLOCK": 64})), ValueError, "arguments="),
        (lambda: assemble(3, "H200"), TypeError, "not int"),
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
        (lambda: Config({}, num_warps=3), ValueError, "num_warps"),
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
