"""Every pattern on real processes trains the model that one process trains, and what does not divide is refused."""

from dataclasses import dataclass, field

import pytest
import torch
from torch import Tensor

from compile_lab import ranks
from mini_model import parallel
from mini_model.model import GPTConfig, MiniGPT

STEPS = 3
TINY = GPTConfig(vocabulary=60, context=16, dim=32, layers=4, heads=4)
DEEP = GPTConfig(vocabulary=60, context=16, dim=32, layers=8, heads=4)
TIED = GPTConfig(vocabulary=60, context=16, dim=32, layers=4, heads=4, tied_head=True)
V_SHAPED_FAILS = "torch before 2.12: V-shaped schedules end in an error on gloo"


@dataclass(frozen=True)
class Case:
    pattern: str
    config: GPTConfig = TINY
    options: dict = field(default_factory=dict)

    def __str__(self) -> str:
        tied = ["tied"] if self.config.tied_head else []
        return " ".join([self.pattern, *tied, *map(str, self.options.values())])


def schedule(name: str, config: GPTConfig = DEEP) -> Case:
    return Case("pp", config, {"schedule": name, "microbatches": 8})


V_SHAPED = [schedule("ZBVZeroBubble"), schedule("DualPipeV")]
LOOPED = [schedule(name) for name in ("GPipe", "1F1B", "Interleaved1F1B", "LoopedBFS", "InterleavedZeroBubble")]
SPLIT = [Case(name) for name in ("ddp", "fsdp", "hsdp", "tp", "tp+sp", "fsdp+tp")]
STAGED = [Case(name, options={"microbatches": 2}) for name in ("pp+fsdp", "pp+tp")]
ENDS_TIED = [Case("fsdp", TIED), Case("tp+sp", TIED), Case("pp+tp", TIED, {"microbatches": 2}), schedule("1F1B", TIED)]


@dataclass(frozen=True)
class Trained:
    losses: list[float]
    gradients: dict[str, Tensor]  # of the last step
    weights: dict[str, Tensor]


def batch(config: GPTConfig, step: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(step)
    tokens = torch.randint(config.vocabulary, (8, config.context + 1), generator=generator)
    return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()


def optimizer(parameters) -> torch.optim.Optimizer:
    # AdamW would make steps of full size out of the key bias' gradient, which is nothing but rounding.
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)


def model(config: GPTConfig) -> MiniGPT:
    torch.manual_seed(0)
    return MiniGPT(config)


def on_one_process(config: GPTConfig) -> Trained:
    plain, losses = model(config), []
    sgd = optimizer(plain.parameters())
    for step in range(STEPS):
        sgd.zero_grad()
        loss = plain(*batch(config, step))
        loss.backward()
        losses.append(loss.item())
        sgd.step()
    gradients = {name: parameter.grad for name, parameter in plain.named_parameters()}
    return Trained(losses, gradients, plain.state_dict())


def on_this_rank(cases: list[Case]) -> list[Trained]:
    trained = []
    for case in cases:
        spread = parallel.parallelize(model(case.config), case.pattern, **case.options)
        sgd, losses = optimizer(spread.parameter_groups()), []
        for step in range(STEPS):
            losses.append(spread.step(*batch(case.config, step)).item())
            sgd.step()
        trained.append(Trained(losses, spread.full_gradients(), spread.full_weights()))
    return trained


def distance(ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> float:
    assert ours.keys() == theirs.keys()
    return max(((ours[name] - theirs[name]).norm() / theirs[name].norm()).item() for name in theirs)


def agree(cases: list[Case], n: int) -> None:
    alone = {config: on_one_process(config) for config in {case.config for case in cases}}
    for rank, results in enumerate(ranks.run(on_this_rank, n, cases, timeout=200)):
        for case, ours in zip(cases, results, strict=True):
            theirs, where = alone[case.config], f"{case} on rank {rank}"
            assert ours.losses == pytest.approx(theirs.losses, abs=1e-6), where
            assert distance(ours.gradients, theirs.gradients) < 1e-5, where
            assert distance(ours.weights, theirs.weights) < 1e-5, where


def test_patterns_train_what_one_process_trains(capfd):
    agree(SPLIT + STAGED, 4)
    assert capfd.readouterr() == ("", "")  # a notebook's cell shows what a rank says


def test_every_schedule_trains_what_one_process_trains():
    agree(LOOPED, 4)


@pytest.mark.skipif(torch.__version__ < "2.12", reason=V_SHAPED_FAILS)
def test_v_shaped_schedules_train_what_one_process_trains():
    agree([*V_SHAPED, schedule("DualPipeV", GPTConfig(60, 16, 32, 8, 4, tied_head=True))], 4)


def test_a_tied_head_stays_tied():
    agree(ENDS_TIED, 4)


def precise(tokens: Tensor) -> dict[str, float]:
    """The loss of each pattern in bfloat16, and that all ranks got the same."""
    losses = {}
    for pattern in ("ddp", "fsdp", "tp", "pp"):
        spread = parallel.parallelize(model(TINY), pattern, dtype=torch.bfloat16, microbatches=2)
        losses[pattern] = spread.step(*batch(TINY, 0)).item()
        assert all(parameter.grad.dtype == torch.float32 for parameter in spread.parameters())
    return losses


def test_three_axes_train_what_one_process_trains():
    agree([Case("3d", GPTConfig(60, 16, 32, 2, 4), {"microbatches": 2})], 8)
