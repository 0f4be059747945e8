"""Generated kernels on the CPU: a whole training step is eager's, a broken kernel is caught, the rest is refused."""

import sys

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from chapters.shared import subjects
from compile_lab.inductor.generated import generated_code
from compile_lab.virtual_gpu.client import interpret
from compile_lab.virtual_gpu.errors import VirtualGPUError

pytestmark = [pytest.mark.processes, pytest.mark.skipif(sys.platform != "linux", reason="Triton is made for Linux")]


@pytest.mark.slow
def test_minigpts_training_step_is_eagers():
    model = subjects.minigpt()
    batch = subjects.tokens(model, 2, 16)
    found = interpret(model, *batch)
    loss = model(*batch)
    loss.backward()
    assert abs(found.outputs - loss) <= 1e-5 * loss
    assert found.gradients.keys() == dict(model.named_parameters()).keys()
    for name, parameter in model.named_parameters():
        difference = (found.gradients[name] - parameter.grad).abs().max() / parameter.grad.abs().max()
        assert difference < 1e-5, name
    assert found.worst < 1e-5 and len(found.errors) == 1 + len(found.gradients)
    assert set(found.launches) == set(found.kernels) and "cc=90" in next(iter(found.kernels.values()))


def test_what_is_interpreted_is_what_the_virtual_chip_would_run():
    model, x = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16)), torch.ones(4, 8)
    written = generated_code(model, x, chip="T4").written
    assert interpret(model, x, chip="T4").kernels == {kernel.name: kernel.source for kernel in written}


@pytest.mark.slow
def test_a_broken_kernel_is_caught():
    x = torch.randn(64, 1000, generator=torch.Generator().manual_seed(0))
    right = interpret(F.softmax, x, -1)
    (name,) = right.kernels
    assert right.worst < 1e-6 and right.launches == {name: 1} and "virtual H200" in repr(right)
    broken = right.kernels[name].replace("tl_math.exp", "tl_math.cos").replace("libdevice.exp", "libdevice.cos")
    assert interpret(F.softmax, x, -1, edit={name: broken}).worst > 0.1
    assert interpret(F.softmax, x, -1, edit=lambda name, source: broken).kernels == {name: broken}
    with pytest.raises(VirtualGPUError, match=f"edit names no_such_kernel, and the kernels are {name}"):
        interpret(F.softmax, x, -1, edit={"no_such_kernel": broken})


def test_gradients_are_named_as_the_user_knows_them():
    layer, scale = nn.Linear(3, 2), torch.ones(2, requires_grad=True)

    def step(x, *, weights):
        return (F.silu(layer(x)) * scale * weights["a"]).sum(), x.sin()

    found = interpret(step, torch.ones(4, 3, requires_grad=True), weights={"a": torch.ones(2, requires_grad=True)})
    assert set(found.gradients) == {"layer.weight", "layer.bias", "scale", "x", "weights['a']"}
    assert found.worst < 1e-5 and {"output[0]", "output[1]"} <= set(found.errors)


def test_a_dot_of_bf16_operands_is_a_products():
    a, b = (torch.randn(64, 64, generator=torch.Generator().manual_seed(i)).bfloat16() for i in range(2))
    config = {"max_autotune_gemm": True, "max_autotune_gemm_backends": "TRITON", "test_configs.max_mm_configs": 1}
    found = interpret(lambda a, b: F.relu(a @ b), a, b, config=config)
    assert found.worst < 0.01
    assert any("tl.dot" in source for source in found.kernels.values())


@pytest.mark.parametrize(
    ("fn", "more", "told"),
    [
        (lambda x: F.dropout(x, 0.5), {"config": {"fallback_random": False}}, "draws random numbers"),
        (lambda x: x, {}, "no generated kernel ran"),
        (torch.tan, {"edit": lambda _, source: source.replace("libdevice.tan", "libdevice.normcdfinv")}, "normcdfinv"),
    ],
)
def test_what_the_interpreter_cannot_do_is_refused_by_name(fn, more, told):
    with pytest.raises(VirtualGPUError, match=told) as raised:
        interpret(fn, torch.ones(8, 8), **more)
    assert raised.value.kind == "UnsupportedKernel"


class Dropped(nn.Module):
    """Attention and its output, each with dropout."""

    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(64, 192), nn.Linear(64, 64)

    def forward(self, x):
        q, k, v = (each.unflatten(-1, (2, 32)).transpose(1, 2) for each in self.qkv(x).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=0.2, is_causal=True)
        return F.dropout(self.out(y.transpose(1, 2).flatten(2)), 0.1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_dropout_drops_what_eager_drops(dtype):
    torch.manual_seed(0)
    layer, x = Dropped().to(dtype), torch.randn(2, 16, 64, dtype=dtype)
    found = interpret(layer, x, seed=3)
    assert found.worst < (1e-5 if dtype == torch.float32 else 0.02)
    assert 0.05 < (found.outputs == 0).float().mean() < 0.15
    assert not torch.equal(found.outputs, interpret(layer, x, seed=4).outputs)


def test_what_is_drawn_is_drawn_as_eager_draws_it():
    x = torch.randn(4, 5, generator=torch.Generator().manual_seed(0))
    for fn in (
        lambda x: torch.rand_like(x) + x * torch.randn(5) + torch.randint(0, 9, (4, 5)),
        lambda x: F.gumbel_softmax(x) + torch.poisson(x.exp()) + torch.randperm(5) + torch.multinomial(x.exp(), 5),
        lambda x: F.rrelu(x, training=True) + F.alpha_dropout(x, 0.3, True) + torch.empty_like(x).exponential_(),
    ):
        assert interpret(fn, x).worst == 0


def doubled(x):
    x.mul_(2.0)
    return x.new_ones(4).sin()


def test_what_a_function_changes_is_judged():
    right = interpret(doubled, torch.ones(4))
    assert right.worst == 0 and set(right.errors) == {"output", "x afterwards"}
    forged = interpret(doubled, torch.ones(4), edit=lambda _, source: source.replace("2.0", "3.0"))
    assert forged.errors == {"output": 0, "x afterwards": 0.5}


def test_running_statistics_are_judged():
    found = interpret(nn.BatchNorm1d(4), torch.randn(8, 4, generator=torch.Generator().manual_seed(0)))
    changed = {name: error for name, error in found.errors.items() if name.endswith("afterwards")}
    assert set(changed) == {f"{each} afterwards" for each in ("running_mean", "running_var", "num_batches_tracked")}
    assert max(changed.values()) < 1e-5


def test_views_of_one_storage_stay_views_of_one():
    base = torch.zeros(8)

    def step(a, b):
        a.add_(1)
        return b * 10

    assert interpret(step, base[:4], base[2:6]).outputs.tolist() == [10, 10, 0, 0]
