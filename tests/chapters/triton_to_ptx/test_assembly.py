"""The chapter's kernels through all stages: which line came from which, registers, refusals."""

import re
import types

import pytest
import torch

from chapters.triton_to_ptx import view as assembly_view

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


def test_every_stage_is_there_and_says_what_the_kernel_does(row):
    assert "tt.reduce" in row.ttir and "#blocked" not in row.ttir and "loc(" not in row.ttir
    assert "sizePerThread = [8]" in row.ttgir
    assert "define" in row.llir and ".target sm_90" in row.ptx
    assert row.count("MUFU.EX2") == row.ptx.count("ex2.approx") == 32  # 4096 elements, 128 threads
    assert row.count("LDG") == 4 and row.count("LDG.E.EF.128") == 4  # of 16 bytes
    assert (row.spills, row.shared_bytes, row.missing) == (0, 16, "")
    assert 32 <= row.registers <= 64


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


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda: assemble(row_kernel, "B300", Config({"BLOCK": 64}), arguments=ROW), ValueError, "there is H200"),
        (lambda: assemble(row_kernel, "H200"), ValueError, "so give a Config"),
        (lambda: assemble(row_kernel, "H200", Config({"BLOCK": 64})), ValueError, "say in arguments="),
        (lambda: assemble(3, "H200"), TypeError, "asks for an inductor.Kernel or a @triton.jit function, not int"),
        (
            lambda: assemble(types.SimpleNamespace(source='extern "C"', language="cpp"), "H200"),
            TypeError,
            "this kernel is cpp code",
        ),
        (
            lambda: assemble(row_kernel, "H200", Config({"BLOK": 64}), arguments=ROW),
            ValueError,
            "Config.blocks of row_kernel must give BLOCK, and gives BLOK",
        ),
        (
            lambda: assemble(row_kernel, "H200", Config({"BLOCK": 64}), arguments={"out": "*bf16"}),
            ValueError,
            "arguments of row_kernel must give out, x, columns",
        ),
        (
            lambda: assemble(row_kernel, "H200", Config({"BLOCK": 64}), arguments={**ROW, "x": "float"}),
            ValueError,
            r"arguments\['x'\] is 'float'",
        ),
        (
            lambda: assemble(row_kernel, "H200", Config({"BLOCK": 100}), arguments=ROW),
            VirtualGPUError,
            "row_kernel does not compile for the virtual H200: .*power of 2",
        ),
        (
            lambda: assemble(
                persistent_kernel,
                "A100",
                Config({"BLOCK": 32768, "STAGES": 4}, 32),
                arguments={"out": "*fp32", "x": "*fp32", "rows": 8, "columns": 32768},
            ),
            VirtualGPUError,
            "bytes of shared memory a block, and the virtual A100 has 166,912: choose smaller blocks",
        ),
        (lambda: Config({}, num_warps=3), ValueError, "num_warps is 3"),
        (lambda: Config({}, num_stages=0), ValueError, "num_stages is 0"),
    ],
)
def test_what_cannot_be_is_said(call, error, said):
    with pytest.raises(error, match=said):
        call()


def test_this_process_keeps_its_own_triton(row):
    with pytest.raises(RuntimeError, match="driver"):
        if torch.cuda.is_available():
            raise RuntimeError("a real driver")
        triton.runtime.driver.active.get_current_target()


def test_the_tables_say_what_the_assembly_says(row):
    (only,) = assembly_view.resources([row]).rows
    assert only[1:4] == (row.registers, 0, 16) and only[4] == f"{row.occupancy.warps} of 64"
    counts = {statement.source: rest for statement, *rest in assembly_view.became(row).rows}
    load = next(text for text in counts if "tl.load" in text)
    assert counts[load] == [len(row.lines[s][line_of(row, "tl.load")]) for s in ("ttir", "ttgir", "ptx", "sass")]
    assert "tt.load" in assembly_view.listing(row, "ttir", line_of(row, "tl.load")).source
    long = assembly_view.listing(row, "ptx", line_of(row, "tl.exp2")).lines
    assert len(long) == assembly_view.LONGEST + 2 and long[0].startswith("… ") and long[-1].endswith(" more")
    assert any("shfl.sync.bfly" in text for text in long), "what is named stands in sight"
    (exponentials,) = assembly_view.operations({"a": row}, {"MUFU.EX2": "exponentials"}, {"a": 32}).table.rows
    assert exponentials == ["exponentials (MUFU.EX2)", 1.0]
