"""Each Triton kernel: compiled for an H200 that is not here, and run in Triton's interpreter beside its reference."""

import pytest
import torch
from interpreted import interpreted

from capstone.hand import verify
from capstone.hand.kernels import activation, adamw, embedding, head, norm, sums
from compile_lab.virtual_gpu import Config, assemble

pytestmark = pytest.mark.processes

ROWS, DIM = 32768, 768
BLOCK = {"DIM": DIM, "BLOCK": 1024, "ROWS": 4}


def pointers(**kinds):
    return {name: f"*{kind}" for kind, names in kinds.items() for name in names.split()}


PARTS = {"PARTS": "*fp32", "stride": 57600, "rows_in_all": ROWS}
SCALARS = dict.fromkeys(("beta1", "beta2", "log2_beta1", "log2_beta2", "eps", "decay"), "fp32")
COMPILED = [
    (
        norm.add_norm_kernel,
        Config({**BLOCK, "ROWS": 2, "ADD": True}, 4),
        pointers(bf16="X BRANCH BIAS STREAM NORMED", fp32="WEIGHT SHIFT MEAN RSTD") | {"eps": "fp32"},
    ),
    (
        norm.norm_backward_kernel,
        Config({"THIRD": 256, "PASS": True, "STAGES": 3, "PROGRAMS": 792}, 1),
        pointers(bf16="GRADIENT STREAM PASSED OUT", fp32="MEAN RSTD WEIGHT") | PARTS,
    ),
    (activation.gelu_kernel, Config({"WIDTH": 3072, "ROWS": 8, "COLUMNS": 512}, 4), pointers(bf16="BEFORE BIAS AFTER")),
    (
        activation.gelu_backward_kernel,
        Config({"WIDTH": 3072, "ROWS": 4, "COLUMNS": 1024, "STAGES": 2, "PROGRAMS": 176}, 4),
        pointers(bf16="GRADIENT BEFORE BIAS OUT") | PARTS,
    ),
    (
        sums.leave_sums_kernel,
        Config({"ROWS": 32, "COLUMNS": 128, "STAGES": 3, "PROGRAMS": 176}, 4),
        {"X": "*bf16", "x_stride": 2304} | PARTS,
    ),
    (
        head.cross_entropy_kernel,
        Config({"VOCABULARY": 50304, "LANES": head.LANES, "EACH": head.EACH}, head.WARPS),
        pointers(bf16="LOGITS", i64="TARGETS", fp32="LOSSES") | {"scale": "fp32", "log2_scale": "fp32"},
    ),
    (embedding.embed_kernel, Config(BLOCK, 4), pointers(i64="TOKENS", bf16="TABLE POSITIONS OUT") | {"length": 1024}),
    (embedding.embed_backward_kernel, Config(BLOCK, 4), pointers(bf16="GRADIENT", i64="TOKENS", fp32="OUT")),
    (
        adamw.adamw_kernel,
        Config({"COPY": True, "BLOCK": 1024}, 4),
        pointers(fp32="MASTER FIRST SECOND COUNT RATE", bf16="LOW GRADIENT") | SCALARS | {"n": 84934656},
    ),
    (
        sums.column_sums_kernel,
        Config({"BLOCK": 128, "ROWS": 16}, 4),
        pointers(fp32="PARTS OUT") | {"stride": 57600, "width": 56832, "height": 792},
    ),
    (
        sums.transpose_kernel,
        Config({"SIDE": 64}, 4),
        pointers(bf16="X OUT") | {"rows": 768, "columns": 3072, "stride": 7077888},
    ),
]


@pytest.mark.parametrize(("kernel", "config", "arguments"), COMPILED, ids=lambda each: getattr(each, "__name__", ""))
def test_a_kernel_compiles_for_an_h200(kernel, config, arguments):
    made = assemble(kernel, "H200", config, arguments=arguments)
    assert ".target sm_90" in made.ptx
    assert not made.spills


def test_cross_entropy_takes_hardly_more_than_one_exponential_a_number_and_pass():
    kernel, config, arguments = next(each for each in COMPILED if each[0] is head.cross_entropy_kernel)
    made = assemble(kernel, "H200", config, arguments=arguments)
    each, tiles, passes = head.LANES * head.EACH // (32 * head.WARPS), 2, 2  # a whole tile, and the last one
    lanes = each // head.EACH
    assert each * tiles * passes < made.ptx.count("ex2.approx") <= each * tiles * passes + lanes * (tiles + 1) + 1
    assert made.occupancy.warps == 64 and ".v4.b32" in made.ptx  # two rows a multiprocessor, 16 bytes a load


def test_references_multiply_in_full_whatever_a_training_has_set(monkeypatch):
    seen = []

    def check(*_):
        seen.append(torch.get_float32_matmul_precision())
        return ()

    monkeypatch.setattr(verify, "_CHECKS", {"one": check})
    monkeypatch.setattr(verify, "_FP8_CHECKS", {"one": check})
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")  # as a step in bf16 leaves it
    try:
        assert verify.verify("cpu") == verify.verify_fp8("cpu") == {}
        assert set(seen) == {"highest"} and torch.get_float32_matmul_precision() == "high"
    finally:
        torch.set_float32_matmul_precision(before)


INTERPRETED = """
import json, sys
import torch
from capstone.hand import kernels
from capstone.hand.step import HandStep
from capstone.hand.verify import relative_error, verify
from mini_model.model import GPTConfig, MiniGPT

kernels.NORM_PARTS, kernels.LINEAR_PARTS = 5, 3  # rows that do not divide into programs, and some that have none
found = verify("cpu", rows=128, dim=768, vocabulary=5000, dtypes=[torch.float32])
torch.manual_seed(2)
model = MiniGPT(GPTConfig(vocabulary=300, context=20, dim=768, layers=2, heads=12, tied_head=True))
window = torch.randint(300, (2, 17))
batch = window[:, :-1].contiguous(), window[:, 1:].contiguous()
loss = model(*batch)
loss.backward()
step = HandStep(model, 2, 16, dtype=torch.float32, kernels="triton")
_, gradients = step.gradients(*batch)
for name, parameter in model.named_parameters():
    ours, right = gradients[name], parameter.grad
    if name.endswith("qkv.bias"):  # of the keys' third, autograd has the rounding of a zero
        found[f"step: {name}, keys"] = float(ours[768:1536].abs().max()), 0.0
        ours, right = (torch.cat([each[:768], each[1536:]]) for each in (ours, right))
    found[f"step: {name}"] = relative_error(ours, right), 1e-4
print(json.dumps(found))
"""


@pytest.mark.slow
def test_in_the_interpreter_each_kernel_is_its_reference_and_the_step_is_autograds():
    found = interpreted(INTERPRETED)
    assert len(found) > 50
    assert not {name: pair for name, pair in found.items() if not pair[0] <= pair[1]}
