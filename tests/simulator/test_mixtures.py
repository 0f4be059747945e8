"""Plans of a shape with experts: the formulas against real programs, under routing that is even, and under a router."""

from dataclasses import replace

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

from compile_lab.devices import collectives, ranks
from compile_lab.devices.collectives import Program, count, held
from compile_lab.simulator import expert_loads
from compile_lab.simulator.experts import Load
from compile_lab.simulator.explored_view import MIXTURES, MODELS
from compile_lab.simulator.holdings import COPIES, buffers, experts_here
from compile_lab.simulator.patterns import layout_of, plan
from compile_lab.simulator.sharding import parameter_count, parameters
from mini_model import parallel
from mini_model.model import MINI, MINI_MIXTURE, MiniGPT
from mini_model.parallel.parts import ExchangedMixture

pytestmark = pytest.mark.processes

MANY = replace(MINI_MIXTURE, layers=2, dim=128, heads=8, experts=16, choices=3, tied_head=True)
ALL = replace(MINI_MIXTURE, layers=2, choices=8)  # whatever a router says, all experts get all tokens
LONE = replace(MINI_MIXTURE, layers=1)
NORM, EXCHANGED = F.layer_norm, dist.all_to_all_single


def program(shape, pattern, mesh, batch, dtype=None, again=False):
    made = parallel.make_mesh(pattern, **mesh)
    tokens = torch.randint(shape.vocabulary, (batch, shape.context))
    model = parallel.parallelize(MiniGPT(shape), pattern, made, dtype=dtype)
    for block in model.parts[0].blocks if again else ():
        block.forward = lambda *given, inner=block.forward: checkpoint(inner, *given, use_reentrant=False)
    return Program(lambda: model.step(tokens, tokens, average=False), model.parts, made)


@pytest.fixture(autouse=True)
def as_many_come_as_go(monkeypatch):
    """A fake group exchanges nothing, and the numbers of rows that come are whatever was in memory."""

    def exchanged(coming, counts, **options):
        EXCHANGED(coming, counts, **options)
        coming.copy_(counts)

    monkeypatch.setattr(dist, "all_to_all_single", exchanged)


def seen_as_saved(layout) -> int:
    """Bytes of a rank's experts: their slices in float32 are no parameters, and are taken for activations."""
    return layout.layers * experts_here(layout) * 4


def agrees(shape, pattern, devices, **options):
    found = plan(shape, pattern, devices, **options)
    size, warm_up, (share,) = found.devices, 2 * (pattern == "ddp"), found.stages
    layout = layout_of(shape, pattern, found.mesh, found.batch, found.length, 1, "fp32")

    def build():
        return program(shape, pattern, found.mesh, found.batch, again=found.checkpointing)

    assert count(build, size, warm_up=warm_up) == share.collectives
    kept, again = held(build, size), found.checkpointing
    extra = seen_as_saved(layout) * (not again)
    if pattern == "cp":  # a CPU's kernel keeps a mask of the last piece
        extra += shape.layers * shape.context // (2 * size) * shape.context * 4
    assert replace(kept, activations=kept.activations - extra) == share.held


@pytest.mark.parametrize("devices", [2, 4, 8])
def test_expert_parallel_is_counted_and_held_as_planned(devices):
    agrees(MINI_MIXTURE, "ep", devices)


@pytest.mark.parametrize(("pattern", "devices"), [("ep", 4), ("ddp", 2), ("fsdp", 32), ("hsdp", 8), ("cp", 4)])
def test_other_mixtures_and_patterns_are_counted_and_held_as_planned(pattern, devices):
    agrees(MANY, pattern, devices)


@pytest.mark.parametrize(("pattern", "devices"), [("ep", 2), ("fsdp", 4), ("ddp", 2)])
def test_checkpointed_experts_are_counted_and_held_as_planned(pattern, devices):
    agrees(MANY, pattern, devices, checkpointing=True)


@pytest.mark.parametrize(("pattern", "devices"), [("ep", 2), ("ep", 8), ("ddp", 2)])
def test_in_bf16_they_are_counted_as_planned(pattern, devices):
    found = plan(MINI_MIXTURE, pattern, devices, precision="bf16")

    def build():
        return program(MINI_MIXTURE, pattern, found.mesh, found.batch, torch.bfloat16)

    assert count(build, devices, warm_up=2 * (pattern == "ddp")) == found.stages[0].collectives


@pytest.mark.parametrize(("pattern", "devices"), [("ep", 4), ("fsdp", 4)])
def test_in_bf16_they_are_counted_and_held_as_planned_where_norms_are_of_float32(pattern, devices, monkeypatch):
    """As autocast has them on a GPU, and not on a CPU. The bf16 copies of experts are saved; a plan has them apart."""

    def as_on_a_gpu(x, shape, weight, bias, eps):
        return NORM(x.float(), shape, weight.float(), bias.float(), eps)

    monkeypatch.setattr(F, "layer_norm", as_on_a_gpu)
    found = plan(MINI_MIXTURE, pattern, devices, precision="bf16")
    (share,) = found.stages
    layout = layout_of(MINI_MIXTURE, pattern, found.mesh, found.batch, found.length, 1, "bf16")
    casts = sum(2 * 4 * each.count * each.shape[0] for each in parameters(MINI_MIXTURE) if "norm" in each.name) // 2

    def build():
        return program(MINI_MIXTURE, pattern, found.mesh, found.batch, torch.bfloat16)

    assert count(build, devices) == share.collectives
    kept = held(build, devices)
    assert replace(kept, activations=kept.activations - buffers(layout, 0)[COPIES] - casts) == share.held


def on_ranks(cases):
    """What this rank counts and holds, and how many rows it has for each expert of the last layer."""
    dist.all_to_all_single = EXCHANGED
    plain, rows = ExchangedMixture.computed, []

    def watched(self, each, counts):
        rows.append(counts.tolist())
        return plain(self, each, counts)

    ExchangedMixture.computed, found = watched, []
    for case in cases:
        torch.manual_seed(0)
        made = program(*case)
        found.append((collectives.counted(made, warm_up=1), collectives.held_here(made), rows[-1:]))
    return found


@pytest.mark.slow
def test_real_routers_are_counted_and_held_as_planned():
    n = 4
    real = ranks.run(on_ranks, n, [(LONE, "ep", {"ep": n}, 8), (ALL, "ep", {"ep": n}, 4)], timeout=600)
    to = [[sum(mine[2 * rank : 2 * rank + 2]) for rank in range(n)] for _, _, (mine,) in (each[0] for each in real)]
    even = 2 * 2 * LONE.context
    assert [sum(mine) for mine in to] == [even] * n and len(set(map(tuple, to))) > 1, "no router is even by itself"
    loads = [
        Load(to[r][r] / even, sum(to[s][r] for s in range(n) if s != r) / even, 0.0, 1 - to[r][r] / even)
        for r in range(n)
    ]
    uneven, even = plan(LONE, "ep", n, batch=8, loads=loads), plan(ALL, "ep", n)
    layout = layout_of(LONE, "ep", {"ep": n}, 8, LONE.context, 1, "fp32")
    for rank, share in enumerate(uneven.stages):
        counted, kept, _ = real[rank][0]
        assert counted == share.collectives
        assert replace(kept, activations=kept.activations - seen_as_saved(layout)) == share.held
        go, come = (sum(each) - to[rank][rank] for each in (to[rank], [mine[rank] for mine in to]))
        (exchanged,) = [each for each in share.collectives if each.kind == "all_to_all"]
        assert exchanged.sent_nbytes == 2 * (go + come) * LONE.dim * 4 + 8 * 8 * 3 // 4
        counted, kept, _ = real[rank][1]
        assert counted == even.stages[0].collectives
        assert replace(kept, activations=kept.activations - 2 * seen_as_saved(layout)) == even.stages[0].held
    assert uneven.routing.startswith("the fullest device's experts get 1.") and "balanced" in even.routing


@pytest.mark.slow
def test_pipelines_of_experts_on_real_ranks_are_counted_and_held_as_planned():
    four = replace(MINI_MIXTURE, context=16)
    cases = [(four, "pp", {"pp": 4}, 8), (four, "pp+fsdp", {"pp": 2, "shard": 2}, 16)]
    real = ranks.run(on_ranks, 4, cases, timeout=600)
    for index, (shape, pattern, mesh, batch) in enumerate(cases):
        found = plan(shape, pattern, mesh, batch=batch, microbatches=4)
        for stage, share in enumerate(found.stages):
            assert real[stage * 4 // len(found.stages)][index][:2] == (share.collectives, share.held), (pattern, stage)


def test_names_and_sizes_are_those_of_the_model():
    for shape in (MINI_MIXTURE, MANY):
        with torch.device("meta"):
            real = {name: tuple(each.shape) for name, each in MiniGPT(shape).named_parameters()}
        ours = {
            each.name.replace("*", str(layer)): each.shape for each in parameters(shape) for layer in range(each.count)
        }
        assert ours == real


def test_a_published_mixture_has_as_many_parameters_as_its_authors_say():
    """Muennighoff et al. (2024): 6.9 billion, of which a token is computed with 1.3 billion."""
    shape = MIXTURES["OLMoE 7 B"]
    total, active = (parameter_count(shape, active) / 1e9 for active in (False, True))
    assert (round(total, 1), round(active, 1)) == (6.9, 1.3)
    assert parameter_count(MODELS["7 B"], active=True) == parameter_count(MODELS["7 B"])


def test_loads_of_equal_shares_are_the_balanced_plan():
    loads, _ = expert_loads(0.0, 4, experts=8, choices=2)
    even, balanced = plan(MINI_MIXTURE, "ep", 4, loads=loads), plan(MINI_MIXTURE, "ep", 4)
    assert set(even.stages) == set(balanced.stages) and len(even.stages) == 4
    skewed = plan(MINI_MIXTURE, "ep", 4, loads=expert_loads(1.0, 4, experts=8, choices=2)[0])
    assert skewed.fullest is skewed.busiest is skewed.stages[0]
    assert even.sent_nbytes == pytest.approx(balanced.sent_nbytes, abs=8)
    assert skewed.total_nbytes > balanced.total_nbytes and skewed.sent_nbytes > balanced.sent_nbytes
    assert "balanced routing assumed" in str(balanced) and "times the even share" in str(skewed)


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda: plan(MINI_MIXTURE, "tp", 4), "8 experts in place of each MLP.*take 'ep', 'fsdp'"),
        (lambda: plan(MINI_MIXTURE, "3d", 8), "8 experts in place of each MLP"),
        (lambda: plan(MINI, "ep", 4), "no experts to share among ep=4"),
        (lambda: plan(MINI_MIXTURE, "ep", 3), "experts=8 cannot be shared by ep=3.*try 1 or 2 or 4 or 8"),
        (lambda: plan(MINI_MIXTURE, "ep", 4, batch=6), "batch=6.*multiple of 4"),
        (lambda: plan(MINI_MIXTURE, "ep", 4, compiled=True), "compiled=True"),
        (lambda: plan(MINI_MIXTURE, "ep", 4, loads=expert_loads(1.0, 2)[0]), "loads are of 2 devices, and ep is 4"),
        (lambda: plan(MINI_MIXTURE, "fsdp", 2, loads=expert_loads(1.0, 2)[0]), "loads are of 2 devices, and ep is 1"),
    ],
)
def test_what_cannot_be_planned_is_refused_with_a_way_out(call, word):
    with pytest.raises(ValueError, match=word):
        call()
