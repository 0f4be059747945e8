"""Each Triton kernel: compiled for an H200 that is not here, and run in Triton's interpreter beside its reference."""

import pytest
from interpreted import interpreted

from capstone.hand.kernels import activation, adamw, embedding, head, norm, sums
from compile_lab.virtual_gpu import Config, assemble

pytestmark = pytest.mark.processes

ROWS, DIM = 32768, 768
BLOCK = {"DIM": DIM, "BLOCK": 1024, "ROWS": 4}
PARTS = {"PARTS": "*fp32", "stride": 57600, "rows_in_all": ROWS}
COMPILED = [
    (
        norm.add_norm_kernel,
        Config({**BLOCK, "ROWS": 2, "ADD": True}, 4),
        dict.fromkeys(("X", "BRANCH", "BIAS", "STREAM", "NORMED"), "*bf16")
        | dict.fromkeys(("WEIGHT", "SHIFT", "MEAN", "RSTD"), "*fp32")
        | {"eps": "fp32"},
    ),
    (
        norm.norm_backward_kernel,
        Config({"THIRD": 256, "PASS": True, "STAGES": 3, "PROGRAMS": 792}, 1),
        dict.fromkeys(("GRADIENT", "STREAM", "PASSED", "OUT"), "*bf16")
        | dict.fromkeys(("MEAN", "RSTD", "WEIGHT"), "*fp32")
        | PARTS,
    ),
    (
        activation.gelu_kernel,
        Config({"WIDTH": 3072, "ROWS": 8, "COLUMNS": 512}, 4),
        dict.fromkeys(("BEFORE", "BIAS", "AFTER"), "*bf16"),
    ),
    (
        activation.gelu_backward_kernel,
        Config({"WIDTH": 3072, "ROWS": 4, "COLUMNS": 1024, "STAGES": 2, "PROGRAMS": 176}, 4),
        dict.fromkeys(("GRADIENT", "BEFORE", "BIAS", "OUT"), "*bf16") | PARTS,
    ),
    (
        sums.leave_sums_kernel,
        Config({"ROWS": 32, "COLUMNS": 128, "STAGES": 3, "PROGRAMS": 176}, 4),
        {"X": "*bf16", "x_stride": 2304} | PARTS,
    ),
    (
        head.cross_entropy_kernel,
        Config({"VOCABULARY": 50304, "LANES": head.LANES, "EACH": head.EACH}, head.WARPS),
        {"LOGITS": "*bf16", "TARGETS": "*i64", "LOSSES": "*fp32", "scale": "fp32", "log2_scale": "fp32"},
    ),
    (
        embedding.embed_kernel,
        Config(BLOCK, 4),
        {"TOKENS": "*i64", "TABLE": "*bf16", "POSITIONS": "*bf16", "OUT": "*bf16", "length": 1024},
    ),
    (embedding.embed_backward_kernel, Config(BLOCK, 4), {"GRADIENT": "*bf16", "TOKENS": "*i64", "OUT": "*fp32"}),
    (
        adamw.adamw_kernel,
        Config({"COPY": True, "BLOCK": 1024}, 4),
        dict.fromkeys(("MASTER", "FIRST", "SECOND", "COUNT", "RATE"), "*fp32")
        | dict.fromkeys(("LOW", "GRADIENT"), "*bf16")
        | dict.fromkeys(("beta1", "beta2", "log2_beta1", "log2_beta2", "eps", "decay"), "fp32")
        | {"n": 84934656},
    ),
    (
        sums.column_sums_kernel,
        Config({"BLOCK": 128, "ROWS": 16}, 4),
        {"PARTS": "*fp32", "OUT": "*fp32", "stride": 57600, "width": 56832, "height": 792},
    ),
    (
        sums.transpose_kernel,
        Config({"SIDE": 64}, 4),
        {"X": "*bf16", "OUT": "*bf16", "rows": 768, "columns": 3072, "stride": 7077888},
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
