import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from compile_lab import virtual_gpu

from . import ask_torch, attention_cells

pytestmark = pytest.mark.processes

DTYPES = ["float16", "bfloat16", "float32", "float64"]
KERNELS = {"math", "flash", "efficient", "cudnn"}
REFUSALS = ("No available kernel", "No viable backend", "Number of heads", "The size of tensor", "Expected")


@pytest.mark.skipif(torch.__version__[:4] != "2.13", reason="told by the CUDA build of torch 2.13")
@pytest.mark.parametrize(
    "capability", [pytest.param(each, marks=[pytest.mark.matrix] * (each != "90")) for each in ask_torch.CAPABILITIES]
)
def test_over_masks_dropout_layouts_and_widths_the_kernel_is_the_one_of_torchs_cuda_build(capability):
    told = json.loads(Path(__file__).with_name("chosen_by_torch_2_13.json").read_text())[capability]
    cells = attention_cells.cells(ask_torch.CELLS, ask_torch.SEED)
    asked = [(cell, letter) for cell, letter in zip(cells, told, strict=True) if letter not in "-m"]
    asked += [(cell, letter) for cell, letter in zip(cells, told, strict=True) if letter in "-m"][:150]
    chip = replace(virtual_gpu.chip("H200"), capability=divmod(int(capability), 10))
    found = virtual_gpu.run(chip, attention_cells.outcomes, [cell for cell, _ in asked], False)
    # a count of heads that does not divide is refused by torch's own product, once math was chosen
    letters = ["m" if kind.startswith("Number of heads") else kind[0] if kind in KERNELS else "-" for kind in found]
    assert not [(cell, told, kind) for (cell, told), kind in zip(asked, letters, strict=True) if told != kind][:5]
    assert len({letter for _, letter in asked}) == (3 if capability == "75" else 5)


@pytest.mark.matrix
@pytest.mark.parametrize("chip", ["T4", "A100", "H200"])
def test_every_call_has_its_gradients_or_torchs_refusal(chip):
    cells = attention_cells.cells(400)
    found = virtual_gpu.run(chip, attention_cells.outcomes, cells)
    wrong = [
        each for each in zip(cells, found, strict=True) if each[1] not in KERNELS and not each[1].startswith(REFUSALS)
    ]
    assert not wrong, (len(wrong), wrong[:5])
    assert not [cell for cell, said in zip(cells, found, strict=True) if said == REFUSALS[0] and "math" in cell[-1]]


@pytest.mark.parametrize(
    "heads", [pytest.param(4, marks=pytest.mark.matrix), 2, pytest.param(1, marks=pytest.mark.matrix)]
)
def test_grouped_queries_train_compiled(heads):
    def attended(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)

    def trained(*args):
        for at in range(0, len(args), 3):
            torch.compile(attended)(*args[at : at + 3]).sum().backward()
        return [(each.grad.shape, each.grad.dtype, each.grad.stride()) for each in args]

    each_with = [(getattr(torch, dtype), n) for dtype in DTYPES for n in (4, heads, heads)]
    args = [torch.ones(2, n, 32, 16, dtype=dtype, requires_grad=True) for dtype, n in each_with]
    assert virtual_gpu.run("H200", trained, *args) == [(each.shape, each.dtype, each.stride()) for each in args]
