"""Every pattern on real processes trains the model that one process trains, and what does not divide is refused."""

from dataclasses import dataclass, field

import pytest
import torch
from torch import Tensor

from compile_lab._torch import dynamo
from compile_lab.devices import ranks
from compile_lab.measure.judge import relative_error
from mini_model import parallel
from mini_model.model import GPTConfig, MiniGPT
from mini_model.parallel import patterns as layouts

pytestmark = pytest.mark.processes

STEPS = 3
TINY = GPTConfig(vocabulary=60, context=16, dim=32, layers=4, heads=4)
DEEP = GPTConfig(vocabulary=60, context=16, dim=32, layers=8, heads=4)
TIED = GPTConfig(vocabulary=60, context=16, dim=32, layers=4, heads=4, tied_head=True)
MIXED = GPTConfig(vocabulary=60, context=16, dim=32, layers=4, heads=4, experts=8)


@dataclass(frozen=True)
class Case:
    pattern: str
    config: GPTConfig = TINY
    options: dict = field(default_factory=dict, hash=False)

    def __str__(self) -> str:
        tied = ["tied"] if self.config.tied_head else []
        return " ".join([self.pattern, *tied, *map(str, self.options.values())])


def schedule(name: str, config: GPTConfig = DEEP) -> Case:
    return Case("pp", config, {"schedule": name, "microbatches": 8})


DUAL_TIED = schedule("DualPipeV", GPTConfig(60, 16, 32, 8, 4, tied_head=True))
V_SHAPED = [schedule("ZBVZeroBubble"), schedule("DualPipeV"), DUAL_TIED]
V_SHAPED_GO = pytest.mark.skipif(torch.__version__ < "2.12", reason="V-shaped schedules end in an error on gloo")
LOOPED = [schedule(name) for name in ("GPipe", "1F1B", "Interleaved1F1B", "LoopedBFS", "InterleavedZeroBubble")]
SPLIT = [Case(name) for name in ("ddp", "fsdp", "hsdp", "tp", "tp+sp", "fsdp+tp")]
POSITIONS = [Case("cp"), Case("cp", TIED), Case("ddp", MIXED), Case("fsdp", MIXED), Case("ep", MIXED)]
POSITIONS += [Case("pp", MIXED, {"microbatches": 4})]
GATHERED = [Case(name, options={"gathered_logits": True}) for name in ("tp", "tp+sp")]
STAGED = [Case(name, options={"microbatches": 2}) for name in ("pp+fsdp", "pp+tp")]
ENDS_TIED = [Case("fsdp", TIED), Case("tp+sp", TIED), Case("pp+tp", TIED, {"microbatches": 2}), schedule("1F1B", TIED)]
THREE_AXES = [Case("3d", GPTConfig(60, 16, 32, 2, 4), {"microbatches": 2})]
ANY_WORDS = [Case("tp", GPTConfig(61, 16, 32, 2, 4, tied_head=True))]


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
    return max(relative_error(ours[name], theirs[name]) for name in theirs)


def agree(cases: list[Case], n: int) -> None:
    alone = {config: on_one_process(config) for config in {case.config for case in cases}}
    for rank, results in enumerate(ranks.run(on_this_rank, n, cases, timeout=600)):
        for case, ours in zip(cases, results, strict=True):
            theirs, where = alone[case.config], f"{case} on rank {rank}"
            assert ours.losses == pytest.approx(theirs.losses, abs=1e-6), where
            assert distance(ours.gradients, theirs.gradients) < 1e-5, where
            assert distance(ours.weights, theirs.weights) < 1e-5, where


@pytest.mark.slow
def test_patterns_train_what_one_process_trains(capfd):
    agree(SPLIT + GATHERED + STAGED, 4)
    assert capfd.readouterr() == ("", "")  # a notebook's cell shows what a rank says


@pytest.mark.parametrize(
    ("cases", "n"),
    [
        pytest.param(LOOPED, 4, id="schedules"),
        pytest.param(V_SHAPED, 4, marks=[pytest.mark.slow, V_SHAPED_GO], id="V-shaped schedules"),
        pytest.param(POSITIONS, 4, marks=pytest.mark.slow, id="shared sequences and experts"),
        pytest.param(ENDS_TIED, 4, marks=pytest.mark.slow, id="a tied head stays tied"),
        pytest.param(THREE_AXES, 8, marks=pytest.mark.slow, id="three axes"),
        pytest.param(ANY_WORDS, 2, id="a vocabulary that divides by nothing, as GPT-2's"),
    ],
)
def test_other_cases_do_too(cases, n):
    agree(cases, n)


def on_two() -> tuple:
    """The first loss and the gradients' types of patterns in bfloat16; a step in two halves; what is refused."""
    found, said = [], []
    for pattern in ("ddp", "fsdp", "tp", "pp"):
        spread = parallel.parallelize(model(TINY), pattern, dtype=torch.bfloat16, microbatches=2)
        loss = spread.step(*batch(TINY, 0)).item()
        found.append((loss, {parameter.grad.dtype for parameter in spread.parameters()}))
    spread = parallel.parallelize(model(TINY), "fsdp")
    loss, own = spread.step(*batch(TINY, 0)).item(), spread.step(*batch(TINY, 0), average=False).item()
    halves = loss, own, sum(parameter.to_local().numel() for parameter in spread.parameters())
    for attempt in (
        lambda: parallel.make_mesh("fsdp", 4),
        lambda: parallel.parallelize(model(TINY), "fsdp", parallel.make_mesh("tp")),
        lambda: parallel.parallelize(model(TINY), "ddp").step(*(part[:3] for part in batch(TINY, 0))),
        lambda: parallel.parallelize(model(TINY), "fsdp").full_gradients(),
    ):
        with pytest.raises(ValueError) as caught:
            attempt()
        said.append(str(caught.value))
    return found, halves, said


def test_on_two_ranks_bfloat16_reduces_in_float32_a_step_has_halves_and_what_does_not_fit_is_refused():
    exact = on_one_process(TINY).losses[0]
    whole = sum(parameter.numel() for parameter in model(TINY).parameters())
    first, second = ranks.run(on_two, 2, timeout=600)
    for loss, types in first[0]:
        assert loss == pytest.approx(exact, abs=0.02) and loss != pytest.approx(exact, abs=1e-6)
        assert types == {torch.float32}
    for _, (loss, own, held), (devices, axes, rows, early) in (first, second):
        assert own == pytest.approx(loss, abs=0.2) and own != loss
        assert held == whole / 2, "every matrix and vector of this size divides by two"
        assert "a mesh of 4 devices on 2 ranks" in devices
        assert "('tp',)" in axes and "needs ('shard',)" in axes
        assert "3 rows does not divide by 2" in rows
        assert "no gradient yet: run a step" in early
    assert first[1][1] != second[1][1]


COMPILED = [Case("fsdp"), Case("cp"), Case("ep", MIXED)]


def compiled() -> tuple[list[Trained], int]:
    """With a backend that generates no code: Inductor would take most of a minute here, and has tests of its own."""
    compile = torch.nn.Module.compile
    torch.nn.Module.compile = lambda block, mode, **options: compile(block, backend="aot_eager", **options)
    trained = on_this_rank([Case(each.pattern, each.config, {"mode": "default"}) for each in COMPILED])
    return trained, dynamo.dynamo_utils.counters["stats"]["unique_graphs"]


@pytest.mark.slow
def test_compiled_blocks_share_one_graph_and_train_the_same():
    alone = {each: on_one_process(each.config) for each in COMPILED}
    for every, graphs in ranks.run(compiled, 2, timeout=600):
        assert graphs == len(COMPILED), "one for the blocks of each pattern"
        for each, trained in zip(COMPILED, every, strict=True):
            assert trained.losses == pytest.approx(alone[each].losses, abs=1e-6), each
            assert distance(trained.gradients, alone[each].gradients) < 1e-5, each


ODD = GPTConfig(vocabulary=60, context=15, dim=32, layers=4, heads=4)


@pytest.mark.parametrize(
    "call, says",
    [
        (lambda: parallel.mesh_sizes(TINY, "fsdp", 4, tp=2), "no axis 'tp'"),
        (lambda: parallel.mesh_sizes(TINY, "fsdp+tp", 8, tp=2, shard=3), "product of the axes"),
        (lambda: layouts.check(TINY, "tp", {"tp": 3}), "4 heads do not divide by tp=3"),
        (lambda: layouts.check(ODD, "tp+sp", {"tp": 2}), "context of 15 tokens does not divide"),
        (lambda: layouts.check(TINY, "pp", {"pp": 4}, schedule="LoopedBFS"), "divide by 8 stages"),
        (lambda: layouts.check(TINY, "pp", {"pp": 2}, microbatches=3, schedule="DualPipeV"), "at least 4"),
        (lambda: layouts.check(TINY, "pp", {"pp": 2}, microbatches=5, schedule="Interleaved1F1B"), "the 2 rounds"),
        (lambda: layouts.check(TINY, "pp", {"pp": 2}, mode="default", schedule="ZBVZeroBubble"), "in two parts"),
        (lambda: layouts.check(TINY, "tp", {"tp": 2}, mode="reduce-overhead"), "without CUDA graphs"),
        (lambda: layouts.check(TINY, "cp", {"cp": 3}), "16 tokens do not divide by 6"),
        (lambda: layouts.check(TINY, "ep", {"ep": 2}), "a model without experts"),
        (lambda: layouts.check(MIXED, "ep", {"ep": 3}), "8 experts do not divide by ep=3"),
        (lambda: layouts.check(MIXED, "tp", {"tp": 2}), "slices each MLP"),
        (lambda: layouts.check_batch(6, {"replicate": 2, "shard": 2}), "a multiple of 4"),
        (lambda: layouts.check_batch(8, {"pp": 2, "shard": 4}), "2 rows a pipeline"),
    ],
)
def test_what_does_not_divide_or_go_together_is_refused(call, says):
    layouts.check(ODD, "tp", {"tp": 2})  # no sequence is split here
    with pytest.raises(ValueError, match=says):
        call()
