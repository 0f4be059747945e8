"""The schedule by hand against autograd and torch's AdamW, with the reference kernels, in float64."""

import pytest
import torch

from capstone.hand.fp8 import Fp8Step
from capstone.hand.step import EPILOGUES, HandStep
from mini_model.model import GPTConfig, MiniGPT

TINY = GPTConfig(vocabulary=41, context=12, dim=24, layers=3, heads=3, tied_head=True)
BATCH, LENGTH = 3, 10


def model(dtype=torch.float64, config=TINY):
    torch.manual_seed(5)
    made = MiniGPT(config)
    for name, parameter in made.named_parameters():  # biases start at 0 and norms at 1: an error could hide there
        if parameter.ndim == 1:
            torch.nn.init.normal_(parameter, mean=float("norm" in name and "weight" in name), std=0.3)
        else:
            parameter.data.mul_(8)
    return made.to(dtype)


EVEN = GPTConfig(vocabulary=41, context=32, dim=64, layers=2, heads=4, tied_head=True)


def batches(n=1, rows=BATCH, length=LENGTH):
    windows = torch.randint(TINY.vocabulary, (n, rows, length + 1), generator=torch.Generator().manual_seed(7))
    return [(each[:, :-1].contiguous(), each[:, 1:].contiguous()) for each in windows]


def autograds(subject, tokens, targets):
    loss, named = subject(tokens, targets), dict(subject.named_parameters())
    return loss.detach(), dict(zip(named, torch.autograd.grad(loss, [*named.values()]), strict=True))


def groups(subject):
    kinds = ([each for each in subject.parameters() if (each.ndim > 1) == matrix] for matrix in (True, False))
    return [{"params": each, "weight_decay": decay} for each, decay in zip(kinds, (0.1, 0.0), strict=True)]


def error(found, expected):
    return float((found.double() - expected.double()).norm() / expected.double().norm())


@pytest.mark.parametrize(
    "options",
    [{"turned": ()}, {"turned": ("mlp.down", "attention.qkv")}, {"epilogues": EPILOGUES}],
)
def test_gradients_are_autograds(options):
    subject, (batch,) = model(), batches()
    loss, found = HandStep(subject, BATCH, LENGTH, dtype=torch.float64, **options).gradients(*batch)
    expected_loss, expected = autograds(subject, *batch)
    assert found.keys() == expected.keys()
    assert abs(loss - expected_loss) < 1e-12
    assert max(error(found[name], expected[name]) for name in expected) < 1e-10


def test_five_steps_are_torchs_adamw():
    subject = model()
    step = HandStep(subject, BATCH, LENGTH, dtype=torch.float64, lr=2e-2)
    optimizer = torch.optim.AdamW(groups(subject), lr=2e-2, betas=(0.9, 0.95), eps=1e-8)
    for at, batch in enumerate(batches(5)):
        if at == 3:
            step.set_lr(5e-3)
            for group in optimizer.param_groups:
                group["lr"] = 5e-3
        loss = subject(*batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        assert abs(step.step(*batch) - loss.detach()) < 1e-10
    weights = step.weights()
    assert max(error(weights[name], each.detach()) for name, each in subject.named_parameters()) < 1e-10


@pytest.mark.parametrize("kind", [HandStep, Fp8Step])
def test_a_continued_run_is_the_same_to_the_bit(kind):
    first, whole, again = (kind(model(torch.float32, EVEN), 2, 32) for _ in range(3))
    data = batches(4, 2, 32)
    for batch in data[:2]:
        first.step(*batch)
    again.load_state_dict(first.state_dict())
    losses = [whole.step(*batch) for batch in data][2:]
    assert losses[0] != losses[1], "a loss is the caller's to keep"
    assert [again.step(*batch) for batch in data[2:]] == losses
    assert all(torch.equal(again.weights()[name], each) for name, each in whole.weights().items())


def test_anothers_state_is_refused():
    step = HandStep(model(torch.float32), BATCH, LENGTH)
    with pytest.raises(ValueError, match=r"state is of another model .* embeddings.low, matrices.low, vectors.low"):
        step.load_state_dict(HandStep(model(torch.float32), BATCH, LENGTH, dtype=torch.float32).state_dict())


def test_in_bf16_gradients_are_near_and_what_is_kept_in_float32_is():
    subject, batch = model(torch.float32), batches()[0]
    step = HandStep(subject, BATCH, LENGTH)
    _, found = step.gradients(*batch)
    _, expected = autograds(subject, *batch)
    both = (torch.cat([each[name].flatten() for name in expected]) for each in (found, expected))
    assert 1e-4 < error(*both) < 0.03
    kinds = {region.gradient.dtype for region in step.regions}, {region.master.dtype for region in step.regions}
    assert kinds == ({torch.float32, torch.bfloat16}, {torch.float32})
