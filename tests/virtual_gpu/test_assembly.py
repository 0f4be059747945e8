"""Which line of a kernel came from which, registers and occupancy, for chips that are not here."""

from types import SimpleNamespace

import pytest
import torch

from compile_lab.inductor.generated import generated_code
from compile_lab.virtual_gpu.chips import CHIPS
from compile_lab.virtual_gpu.errors import VirtualGPUError
from compile_lab.virtual_gpu.line_maps import opcodes, ptx_lines, without_notes
from compile_lab.virtual_gpu.warps import occupancy

triton = pytest.importorskip("triton", reason="no triton for this platform")
tl = triton.language

from compile_lab.virtual_gpu.assembly import Config, assemble, assemble_all, resources  # noqa: E402

pytestmark = pytest.mark.processes


@triton.jit
def doubled(x):
    return x + x


@triton.jit
def adds(out, x, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    value = tl.load(x + at, at < n)
    tl.store(out + at, doubled(value), at < n)


def test_a_kernel_may_use_another_and_more_warps_take_fewer_registers():
    few, many = assemble_all(
        adds, "A100", [Config({"BLOCK": 4096}, w) for w in (1, 8)], arguments={"out": "*fp32", "x": "*fp32", "n": 999}
    )
    assert ".target sm_80" in few.ptx and few.registers > many.registers
    assert few.occupancy.warps <= many.occupancy.warps


def test_what_several_kernels_take_is_what_each_takes_in_its_assembly():
    code = generated_code(lambda x: (x.softmax(-1).tanh(), x.sum(0)), torch.ones(64, 512), chip="H200")
    assert len(code.written) > 1
    for kernel, taken in zip(code.written, resources(code.written, "H200"), strict=True):
        alone = assemble(kernel, "H200")
        assert (taken.registers, taken.spills, taken.warps) == (alone.registers, alone.spills, alone.occupancy.warps)
        assert taken.registers > 1
    broken = SimpleNamespace(source=code.written[0].source.replace("tl.program_id(0)", "tl.no_such_thing(0)"))
    with pytest.raises(VirtualGPUError, match="does not compile for the virtual H200: line"):
        resources([code.written[0], broken], "H200")


@pytest.mark.parametrize(
    ("registers", "shared", "warps", "held", "limit"),
    [
        (32, 0, 4, 64, "warps"),  # 32 · 32 = 4 · 256; 16384 / 1024 = 16 warps a part: all 64
        (48, 0, 4, 40, "registers"),  # 1536 = 6 · 256; 10 a part, 40 in all: 10 blocks
        (33, 0, 8, 48, "registers"),  # 1056 → 1280; 12 a part, 48 in all: 6 blocks
        (168, 0, 1, 12, "registers"),  # 5376; 3 a part
        (16, 0, 1, 32, "blocks"),  # 32 blocks of one warp
        (32, 100 * 1024, 4, 8, "shared memory"),  # 101 KiB with the system's own: 2 of 228
    ],
)
def test_occupancy_against_values_worked_out_by_hand(registers, shared, warps, held, limit):
    found = occupancy(CHIPS["H200"], registers, shared, warps)
    assert (found.warps, found.limited_by) == (held, limit)
    assert found.fraction == held / 64
    assert occupancy(CHIPS["T4"], 32, 0, 4).warps == 32, "which has half the warps"


PTX = """.visible .entry kernel()
{
	.loc	1 4 2 // kernel.py:4:2
	ld.global.b32 	%r1, [%rd1];
$L__tmp0:
	.loc	2 9 1 // standard.py:9:1 @[ kernel.py:6:3 ]
	@%p1 add.f32 	%r2, %r1, %r1;
	.loc	2 0 1 // standard.py:0:1
	ret;
}
	.section .debug
"""


def test_ptx_lines_belong_to_the_loc_before_them():
    assert ptx_lines(PTX) == {4: (4,), 6: (7,)}
    assert list(opcodes(PTX)) == ["ld.global.b32", "add.f32", "ret"]


def test_inline_code_belongs_to_the_line_before_it_whatever_it_says_inside():
    inline = """
	.loc	1 7 11                          // kernel.py:7:11
	// begin inline asm
	.loc	1 7 11                          // kernel.py:7:11
	mov.u64 %rd2, 0x0;
	.loc	1 8 11                          // kernel.py:8:11
	createpolicy.fractional.L2::evict_first.b64 %rd2, 1.0;
	// end inline asm
	mov.b32 	%r16, -8323200;
	.loc	1 8 14                          // kernel.py:8:14
	cvt.f32.bf16 	%r41, %rs1;
"""
    assert ptx_lines(inline) == {7: (5, 7, 9), 8: (11,)}


def test_inlined_code_is_followed_from_caller_to_caller():
    inlined = """
	.loc	1 2 0                           // kernel.py:2:0
	.loc	2 216 16, function_name $L__info_string0, inlined_at 1 9 31 // standard.py:216:16
	shfl.sync.bfly.b32 	%r136, %r135, 16, 31, -1;
	.loc	2 196 12, function_name $L__info_string0, inlined_at 2 216 16 // standard.py:196:12
	max.f32 	%r137, %r135, %r136;
	.loc	2 216 16, function_name $L__info_string0, inlined_at 1 10 28 // standard.py:216:16
	.loc	2 196 12, function_name $L__info_string0, inlined_at 2 216 16 // standard.py:196:12
	max.f32 	%r138, %r136, %r137;
	.loc	1 14 2, function_name $L__info_string1, inlined_at 1 11 4 // kernel.py:14:2
	add.f32 	%r139, %r138, %r138;
"""
    assert ptx_lines(inlined) == {9: (4, 6), 10: (9,), 11: (11,)}


def test_sass_goes_by_way_of_ptx():
    sass = '\t//## File ".nv_debug_ptx_txt", line 7\n        /*0010*/                   FADD R1, R2, R2 ;\n.L_x_0:\n'
    assert without_notes(sass, PTX) == ("FADD R1, R2, R2\n.L_x_0:", {6: (1,)})
