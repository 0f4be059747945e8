"""What a program makes itself has its values on a chip that is not here; what only a GPU would compute has none."""

import sys

import numpy as np
import pytest
import torch
from torch import nn

from compile_lab.inductor.generated import generated_code
from compile_lab.virtual_gpu.client import interpret, run
from compile_lab.virtual_gpu.errors import VirtualGPUError

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(sys.platform != "linux", reason="Triton, and so the virtual GPU, is made for Linux"),
]

MADE = {
    "tensor": (lambda: torch.tensor([1, 2, 3], device="cuda"), [1, 2, 3]),
    "an empty tensor": (lambda: torch.tensor([], device="cuda"), []),
    "a number": (lambda: torch.tensor(2.5, device="cuda"), 2.5),
    "as_tensor of numpy's": (lambda: torch.as_tensor(np.arange(3), device="cuda"), [0, 1, 2]),
    "from_numpy, moved": (lambda: torch.from_numpy(np.arange(3)).to("cuda"), [0, 1, 2]),
    "moved by cuda": (lambda: torch.tensor([1, 2]).cuda(), [1, 2]),
    "arange": (lambda: torch.arange(1, 7, 2, device="cuda"), [1, 3, 5]),
    "zeros": (lambda: torch.zeros(2, dtype=torch.long, device="cuda"), [0, 0]),
    "new_tensor": (lambda: torch.ones(1, device="cuda").new_tensor([5.0]), [5.0]),
    "ones_like": (lambda: torch.ones_like(torch.empty(2, device="cuda")), [1.0, 1.0]),
    "computed": (lambda: (torch.arange(3, device="cuda") * 2).cumsum(0).flip(0), [6, 2, 0]),
    "changed in place": (lambda: torch.zeros(3, device="cuda").index_fill_(0, _index(), 2.0), [0.0, 2.0, 0.0]),
    "resized by a composite": (lambda: torch.tensor([-1.0, 2.0], device="cuda").abs(), [1.0, 2.0]),
    "nonzero": (lambda: torch.tensor([0, 3, 0, 1], device="cuda").nonzero().flatten(), [1, 3]),
}


def _index():
    return torch.tensor([1], device="cuda")


def test_constants_are_on_the_device_and_have_their_values():
    def asked():
        made = {name: make() for name, (make, _) in MADE.items()}
        return {name: (each.device.type, type(each).__name__, each.tolist()) for name, each in made.items()}

    found = run("H200", asked)
    assert found == {name: ("cuda", "FakeTensor", values) for name, (_, values) in MADE.items()}


def test_a_program_may_decide_by_what_it_has_made_until_that_is_overwritten():
    def asked(x):
        mask = torch.ones(4, dtype=torch.bool, device="cuda")
        view = mask[:2]
        known = bool(mask.all()), int(torch.arange(5, device="cuda").max())
        view.copy_(x[:2] > 0)
        try:
            return known, bool(mask.all())
        except RuntimeError as error:
            return known, type(error).__name__

    assert run("H200", asked, torch.ones(4)) == ((True, 4), "ValueUnknown")


def test_constants_in_traced_code_are_part_of_the_kernels():
    table = list(range(11))

    def fn(x):
        number, row = torch.tensor(2.5, device=x.device), x.new_tensor([3.0, 4.0])
        cache = torch.tensor([], device=x.device)
        return torch.cat([cache, x * number]).view(-1, 2) * row, x.sum() + torch.tensor(table, device=x.device).sum()

    code = generated_code(fn, torch.ones(4, requires_grad=True), chip="H200")
    assert not code.trouble
    assert {graph.direction for graph in code.graphs} == {"forward", "backward"} and not code.breaks
    forward = "".join(kernel.source for kernel in code.written)
    assert all(number in forward for number in ("2.5", "3.0", "4.0"))
    # As on a real GPU, a list is made on the device, and no copy of it is in the wrapper.
    assert "_tensor_constant" in code.wrapper and "device(type='cpu')" not in code.wrapper


class Shifted(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(0.5, 2, 12))

    def forward(self, x):
        steps = torch.tensor([float(n % 5) for n in range(12)], device=x.device)
        return (x * self.weight + steps * torch.tensor(0.5, device=x.device)).square().sum()


def test_interpreted_kernels_compute_with_the_constants_of_the_graph():
    assert interpret(Shifted(), torch.ones(12)).worst < 1e-5


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: 1 if x.sum() > 0 else 2,
        lambda x: torch.compile(lambda x: x + 1 if x.sum() > 0 else x - 1)(x),
        lambda x: x.tolist()[0] > 1 and 2,
        lambda x: x[: int(x.sum())],
    ],
    ids=["branch", "branch in compiled code", "tolist", "size"],
)
def test_a_value_that_only_a_gpu_would_compute_is_told_in_two_lines(fn):
    with pytest.raises(VirtualGPUError) as raised:
        run("H200", fn, torch.ones(3))
    what, todo = str(raised.value).splitlines()
    assert raised.value.kind == "ValueUnknown" and "asks for a value that only the real GPU would compute" in what
    assert "test_constants.py, line" in what and "lambda x" in what
    assert "torch.where" in todo
