"""The rungs are one training: the same loss, the same gradients, the same updates, up to the precision of each."""

import pytest
import torch

from capstone.gpt import TiedHead, training_loss
from capstone.rungs import RUNGS
from capstone.steps import FlatAdamW, FunctionStep, ModuleStep
from mini_model.model import GPTConfig, MiniGPT

CONFIG = GPTConfig(vocabulary=640, context=16, dim=96, layers=2, heads=2, tied_head=True)
APART = {"first": 1e-6, "tf32": 1e-6} | {name: 0.1 for name in RUNGS if "fp8" in name}
"""How far the gradients of a rung may lie from the first one's; 0.01 for one in bf16. Products in fp8 have 3 bits."""
ON_A_CPU = [name for name in RUNGS if name not in ("graph",)]


@pytest.fixture
def batch():
    drawn = torch.randint(640, (4, 17), generator=torch.Generator().manual_seed(1))
    return drawn[:, :-1].contiguous(), drawn[:, 1:].contiguous()


def model():
    torch.manual_seed(0)
    return MiniGPT(CONFIG)


def apart(found, wanted):
    both = [(found[name], wanted[name]) for name in wanted]
    return float(sum((a - b).square().sum() for a, b in both) / sum(b.square().sum() for _, b in both)) ** 0.5


@pytest.mark.parametrize("name", ON_A_CPU)
def test_a_rung_has_the_gradients_of_the_first(name, batch):
    loss, wanted = RUNGS["first"].made(model(), 4, 16).gradients(*batch)
    step = RUNGS[name].made(model(), 4, 16)
    before = step.weights()
    found_loss, found = step.gradients(*batch)
    assert set(found) == set(wanted)
    assert abs(float(found_loss) - float(loss)) < (5e-3 if "fp8" in name else 1e-3)
    assert apart(found, wanted) < APART.get(name, 0.01)
    assert all(torch.equal(before[each], weight) for each, weight in step.weights().items())


@pytest.mark.parametrize("flat", [False, True])
def test_eager_function_steps_train_as_the_module_does_and_restart(flat, batch):
    module, function = ModuleStep(model()), FunctionStep(model(), chunks=4, flat=flat, compiled=False)
    first = {name: each.detach().clone() for name, each in model().named_parameters()}
    for step in (module, function):
        step.set_lr(1e-3)
    wanted = [float(module.step(*batch)) for _ in range(4)]
    losses = [float(function.step(*batch)) for _ in range(4)]
    assert wanted[-1] < wanted[0] - 0.3
    assert losses == pytest.approx(wanted, abs=2e-3)
    moved = module.weights()
    change = {name: moved[name] - first[name] for name in first}
    same = {name: function.weights()[name] - first[name] for name in first}
    assert apart(same, change) < 0.25, "AdamW divides by the gradient's size: of small ones rounding decides the sign"
    function.restart(first)
    assert [float(function.step(*batch)) for _ in range(4)] == losses


def test_the_head_in_chunks_has_autograds_gradients():
    torch.manual_seed(0)
    hidden, table = torch.randn(24, 8, dtype=torch.float64), torch.randn(40, 8, dtype=torch.float64)
    targets = torch.randint(40, (24,))
    leaves = [hidden.clone().requires_grad_(), table.clone().requires_grad_()]
    others = [hidden.clone().requires_grad_(), table.clone().requires_grad_()]
    wanted = torch.nn.functional.cross_entropy(leaves[0] @ leaves[1].T, targets)
    found = TiedHead.apply(*others, targets, 3)
    (3 * wanted).backward(), (3 * found).backward()
    assert found.item() == pytest.approx(wanted.item(), abs=1e-6)
    for one, other in zip(leaves, others, strict=True):
        assert torch.allclose(one.grad, other.grad, atol=1e-7), "the gradient of 3 times the loss"


def test_what_changes_in_a_flat_update_is_what_a_graph_must_put_back(batch):
    optimizer = FlatAdamW(dict(model().named_parameters()), compiled=False)
    state = [each.clone() for each in optimizer.state]
    training_loss(optimizer.weights, *batch, CONFIG).backward()
    low = {name: each.clone() for name, each in optimizer.weights.items()}
    optimizer.update()
    assert any(not torch.equal(low[name], each) for name, each in optimizer.weights.items())
    for each, was in zip(optimizer.state, state, strict=True):
        each.copy_(was)
    assert all(torch.equal(low[name], each) for name, each in optimizer.weights.items())
