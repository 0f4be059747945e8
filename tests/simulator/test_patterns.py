"""plan: the formulas against the real program on a fake group of up to 16,384 devices, and on four real ranks.

Of experts, under routing that is even, and under a router.
"""

from dataclasses import replace

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule
from torch.utils.checkpoint import checkpoint

from compile_lab.devices import collectives, ranks
from compile_lab.devices.collectives import Program, count, held
from compile_lab.simulator import expert_loads
from compile_lab.simulator.collectives import Collective
from compile_lab.simulator.experts import Load
from compile_lab.simulator.holdings import COPIES, buffers, experts_here
from compile_lab.simulator.patterns import layout_of, plan
from compile_lab.simulator.sharding import parameters
from mini_model import parallel
from mini_model.model import GPT2_124M, MINI, MINI_MIXTURE, MiniGPT
from mini_model.parallel.parts import ExchangedMixture

pytestmark = pytest.mark.processes

SMALL = replace(MINI, layers=3)
WIDE = replace(MINI, layers=2, dim=128, heads=16, vocabulary=601, context=32)
TIED = replace(SMALL, tied_head=True)
MANY = replace(MINI_MIXTURE, layers=2, dim=128, heads=8, experts=16, choices=3, tied_head=True)
ALL = replace(MINI_MIXTURE, layers=2, choices=8)  # whatever a router says, all experts get all tokens
LONE = replace(MINI_MIXTURE, layers=1)
NORM, EXCHANGED = F.layer_norm, dist.all_to_all_single


@pytest.fixture
def as_many_come_as_go(monkeypatch):
    """A fake group exchanges nothing, and the numbers of rows that come are whatever was in memory."""

    def exchanged(coming, counts, **options):
        EXCHANGED(coming, counts, **options)
        coming.copy_(counts)

    monkeypatch.setattr(dist, "all_to_all_single", exchanged)


def program(shape, pattern, mesh, batch, microbatches=4, dtype=None, **options):
    made = parallel.make_mesh(pattern, **mesh)
    tokens = torch.randint(shape.vocabulary, (batch, shape.context))
    model = parallel.parallelize(MiniGPT(shape), pattern, made, microbatches=microbatches, dtype=dtype, **options)
    return Program(lambda: model.step(tokens, tokens, average=False), model.parts, made)


def planned(shape, pattern, devices, *, checkpointing=False, precision="fp32", **options):
    """A plan, and what builds its program on a rank."""
    found = plan(shape, pattern, devices, checkpointing=checkpointing, precision=precision, **options)
    dtype = torch.bfloat16 if precision == "bf16" else None

    def build():
        made = program(shape, pattern.removesuffix(", kept"), found.mesh, found.batch, dtype=dtype, **options)
        for module in made.modules[0].modules() if pattern.endswith(", kept") else ():
            if isinstance(module, FSDPModule):
                module.set_reshard_after_forward(False)
        blocks = made.modules[0].blocks if checkpointing else ()
        for block in blocks.values() if hasattr(blocks, "values") else blocks:
            block.forward = lambda *given, inner=block.forward: checkpoint(inner, *given, use_reentrant=False)
        return made

    return found, build


def seen_as_saved(found) -> int:
    """Bytes of a rank's experts: their slices in float32 are no parameters, and are taken for activations."""
    layout = layout_of(found.shape, found.pattern, found.mesh, found.batch, found.length, 1, "fp32")
    return layout.layers * experts_here(layout) * 4


@pytest.mark.parametrize(("shape", "pattern", "devices", "options"), [
    *((SMALL, *each, {}) for each in [("hsdp", 1024), ("fsdp, kept", 8)]),
    *((WIDE, *each, {}) for each in [("tp", 16), ("tp+sp", 16), ("fsdp+tp", 64), ("cp", 16)]),
    *((TIED, *each, {}) for each in [("tp", 2), ("fsdp", 8), ("cp", 8)]),
    *((WIDE, *each, {"gathered_logits": True}) for each in [("tp", 2), ("tp+sp", 16), ("fsdp+tp", 8)]),
    *((SMALL, *each, {"checkpointing": True}) for each in [
        ("ddp", 2), ("tp", 4), ("tp+sp", 2), ("fsdp", 4), ("cp", 4)]),
    (MINI_MIXTURE, "ep", 8, {}),
    *((MANY, *each, {}) for each in [("ep", 4), ("ddp", 2), ("fsdp", 32), ("hsdp", 8), ("cp", 4)]),
    *((MANY, *each, {"checkpointing": True}) for each in [("ep", 2), ("fsdp", 4), ("ddp", 2)]),
])  # fmt: skip
def test_a_program_is_counted_and_held_as_planned(shape, pattern, devices, options, as_many_come_as_go):
    found, build = planned(shape, pattern, devices, **options)
    (share,) = found.stages
    assert count(build, devices, warm_up=2 * (pattern == "ddp")) == share.collectives
    kept, extra = held(build, devices), 0
    if not found.checkpointing:
        extra = seen_as_saved(found)
        if pattern == "cp":
            # A CPU's kernel keeps, in float32, a mask of the last piece, to which all positions are in sight.
            extra += shape.layers * shape.context // (2 * devices) * shape.context * 4
    assert replace(kept, activations=kept.activations - extra) == share.held


@pytest.mark.parametrize(("shape", "pattern", "devices", "precision"), [
    (replace(SMALL, context=16), "fsdp", 16_384, "fp32"),
    *((SMALL, *each, "bf16") for each in [
        ("ddp", 8), ("fsdp", 8), ("fsdp, kept", 4), ("tp", 4), ("tp+sp", 2), ("cp", 4)]),
    (MINI_MIXTURE, "ep", 8, "bf16"), (MINI_MIXTURE, "ddp", 2, "bf16"),
])  # fmt: skip
def test_what_travels_is_counted_as_planned(shape, pattern, devices, precision, as_many_come_as_go):
    found, build = planned(shape, pattern, devices, precision=precision)
    assert count(build, devices, warm_up=2 * (pattern == "ddp")) == found.stages[0].collectives


@pytest.mark.parametrize("pattern", ["ep", "fsdp"])
def test_experts_in_bf16_are_held_as_planned_where_norms_are_of_float32(pattern, as_many_come_as_go, monkeypatch):
    """As autocast has them on a GPU, and not on a CPU. The bf16 copies of experts are saved; a plan has them apart."""

    def as_on_a_gpu(x, shape, weight, bias, eps):
        return NORM(x.float(), shape, weight.float(), bias.float(), eps)

    monkeypatch.setattr(F, "layer_norm", as_on_a_gpu)
    found, build = planned(MINI_MIXTURE, pattern, 4, precision="bf16")
    (share,) = found.stages
    layout = layout_of(MINI_MIXTURE, pattern, found.mesh, found.batch, found.length, 1, "bf16")
    casts = sum(2 * 4 * each.count * each.shape[0] for each in parameters(MINI_MIXTURE) if "norm" in each.name) // 2
    assert count(build, 4) == share.collectives
    kept = held(build, 4)
    assert replace(kept, activations=kept.activations - buffers(layout, 0)[COPIES] - casts) == share.held


def on_four_ranks(cases):
    """What this rank counts and holds, and how many rows it has for each expert of the last layer."""
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
def test_a_pipeline_on_real_ranks_is_counted_and_held_as_planned():
    four, experts = (replace(shape, context=16) for shape in (MINI, MINI_MIXTURE))
    cases = [
        (replace(four, tied_head=True), "pp", {"pp": 4}, 8, 4),
        (four, "pp+fsdp", {"pp": 2, "shard": 2}, 16, 4),
        (four, "pp+fsdp", {"pp": 2, "shard": 2}, 16, 8),
        (four, "pp+tp", {"pp": 2, "tp": 2}, 8, 4),
        (experts, "pp", {"pp": 4}, 8, 4),
        (experts, "pp+fsdp", {"pp": 2, "shard": 2}, 16, 4),
        (four, "pp", {"pp": 4}, 8, 8, torch.bfloat16),
        (four, "pp+fsdp", {"pp": 2, "shard": 2}, 16, 4, torch.bfloat16),
    ]
    real = ranks.run(on_four_ranks, 4, cases, timeout=600)
    for index, (shape, pattern, mesh, batch, microbatches, *dtype) in enumerate(cases):
        precision = "bf16" if dtype else "fp32"
        found = plan(shape, pattern, mesh, batch=batch, microbatches=microbatches, precision=precision)
        for stage, share in enumerate(found.stages):
            counted, kept, _ = real[stage * 4 // len(found.stages)][index]
            assert counted == share.collectives, (pattern, mesh, stage)
            assert dtype or kept == share.held, (pattern, mesh, stage)


@pytest.mark.slow
def test_real_routers_are_counted_and_held_as_planned():
    n = 4
    real = ranks.run(on_four_ranks, n, [(LONE, "ep", {"ep": n}, 8), (ALL, "ep", {"ep": n}, 4)], timeout=600)
    to = [[sum(mine[2 * rank : 2 * rank + 2]) for rank in range(n)] for _, _, (mine,) in (each[0] for each in real)]
    even = 2 * 2 * LONE.context
    assert [sum(mine) for mine in to] == [even] * n and len(set(map(tuple, to))) > 1, "no router is even by itself"
    loads = [
        Load(to[r][r] / even, sum(to[s][r] for s in range(n) if s != r) / even, 0.0, 1 - to[r][r] / even)
        for r in range(n)
    ]
    uneven, even = plan(LONE, "ep", n, batch=8, loads=loads), plan(ALL, "ep", n)
    for rank, share in enumerate(uneven.stages):
        counted, kept, _ = real[rank][0]
        assert counted == share.collectives
        assert replace(kept, activations=kept.activations - seen_as_saved(uneven)) == share.held
        go, come = (sum(each) - to[rank][rank] for each in (to[rank], [mine[rank] for mine in to]))
        (exchanged,) = [each for each in share.collectives if each.kind == "all_to_all"]
        assert exchanged.sent_nbytes == 2 * (go + come) * LONE.dim * 4 + 8 * 8 * 3 // 4
        counted, kept, _ = real[rank][1]
        assert counted == even.stages[0].collectives
        assert replace(kept, activations=kept.activations - seen_as_saved(even)) == even.stages[0].held


def test_loads_of_equal_shares_are_the_balanced_plan():
    both = (expert_loads(skew, 4, experts=8, choices=2)[0] for skew in (0.0, 1.0))
    even, skewed = (plan(MINI_MIXTURE, "ep", 4, loads=loads) for loads in both)
    balanced = plan(MINI_MIXTURE, "ep", 4)
    assert set(even.stages) == set(balanced.stages) and len(even.stages) == 4
    assert skewed.fullest is skewed.busiest is skewed.stages[0]
    assert skewed.total_nbytes > balanced.total_nbytes and skewed.sent_nbytes > balanced.sent_nbytes


def chain(*sent):
    """A program that makes these collectives, and nothing else: kind and numbers of float32."""

    def build():
        mesh = init_device_mesh("cpu", (2, 4), mesh_dim_names=("outer", "inner"))
        inner = mesh.get_group("inner")

        def step():
            for kind, numbers in sent:
                if kind == "all_reduce":
                    dist.all_reduce(torch.ones(numbers), group=mesh.get_group("outer"))
                elif kind == "all_gather":
                    dist.all_gather_into_tensor(torch.empty(4 * numbers), torch.ones(numbers), group=inner)
                elif kind == "list":
                    dist.all_gather([torch.empty(numbers) for _ in range(4)], torch.ones(numbers), group=inner)
                elif kind == "reduce_scatter":
                    dist.reduce_scatter_tensor(torch.empty(numbers), torch.ones(4 * numbers), group=inner)
                elif kind == "send":
                    dist.send(torch.ones(numbers), dst=1)
                elif kind == "recv":
                    dist.recv(torch.ones(numbers), src=1)

        return Program(step, mesh=mesh)

    return build


@pytest.mark.filterwarnings("ignore:.*deprecated:FutureWarning")
def test_known_collectives_are_counted_by_kind_axis_and_bytes():
    build = chain(("all_reduce", 10), ("all_reduce", 5), ("all_gather", 6), ("list", 6), ("reduce_scatter", 7))
    assert count(build, 8) == (
        Collective("all_gather", "inner", 4, 2, 2 * 4 * 6 * 4),
        Collective("reduce_scatter", "inner", 4, 1, 4 * 7 * 4),
        Collective("all_reduce", "outer", 2, 2, 60),
    )


def test_a_message_is_counted_where_it_is_sent_and_a_lone_number_is_not():
    (sent,) = count(chain(("send", 3), ("recv", 100), ("all_reduce", 1)), 8)
    assert (sent.kind, sent.count, sent.payload_nbytes, sent.sent_nbytes) == ("send", 1, 12, 12)


@pytest.mark.parametrize("shape", [MINI, GPT2_124M, TIED, MINI_MIXTURE, MANY])
def test_names_and_sizes_are_those_of_the_model(shape):
    with torch.device("meta"):
        real = {name: tuple(each.shape) for name, each in MiniGPT(shape).named_parameters()}
    ours = {each.name.replace("*", str(layer)): each.shape for each in parameters(shape) for layer in range(each.count)}
    assert ours == real


def test_a_pretended_rank_computes_on_one_thread_and_gives_the_others_back():
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        with collectives.fake_process_group(4):
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_a_pretended_group_is_refused_beside_a_real_one_and_leaves_nothing_behind():
    with pytest.raises(ValueError, match="no rank 8 of 8"):
        count(chain(), 8, rank=8)
    with collectives.fake_process_group(4), pytest.raises(RuntimeError, match="destroy_process_group"):
        count(chain(), 8)
    assert not dist.is_initialized()
    with pytest.raises(ZeroDivisionError):
        count(lambda: 1 / 0, 2)
    assert not dist.is_initialized()
    with pytest.raises(ValueError, match="process group"):
        nn.parallel.DistributedDataParallel(nn.Linear(2, 2))
