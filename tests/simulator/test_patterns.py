"""plan: the formulas against the real program on a fake group of up to 16,384 devices, and on four real ranks."""

from dataclasses import replace

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh

from compile_lab.devices import collectives, ranks
from compile_lab.devices.collectives import Program, count, held
from compile_lab.simulator.collectives import Collective
from compile_lab.simulator.patterns import plan
from compile_lab.simulator.sharding import parameter_count, parameters
from mini_model import parallel
from mini_model.model import GPT2_124M, MINI, MiniGPT

pytestmark = pytest.mark.processes

SMALL = replace(MINI, layers=2)
WIDE = replace(MINI, layers=2, dim=128, heads=16, vocabulary=601, context=32)
TIED = replace(SMALL, tied_head=True)
LARGE = replace(GPT2_124M, dim=8192, layers=8, heads=64, tied_head=False)


def program(shape, pattern, mesh, batch, microbatches=4, dtype=None, **options):
    made = parallel.make_mesh(pattern, **mesh)
    tokens = torch.randint(shape.vocabulary, (batch, shape.context))
    model = parallel.parallelize(MiniGPT(shape), pattern, made, microbatches=microbatches, dtype=dtype, **options)
    return Program(lambda: model.step(tokens, tokens, average=False), model.parts, made)


def agrees(shape, pattern, devices, rank=0, **options):
    """Both the collectives and the bytes held are as planned."""
    found = plan(shape, pattern, devices, **options)
    size, warm_up = found.devices, 2 if pattern == "ddp" else 0

    def build():
        return program(shape, pattern, found.mesh, found.batch, **options)

    (share,) = found.stages
    assert count(build, size, rank=rank, warm_up=warm_up) == share.collectives
    assert held(build, size, rank=rank) == share.held


@pytest.mark.parametrize("devices", [2, 8, 64, 1024, 16_384])
@pytest.mark.parametrize("pattern", ["ddp", "fsdp"])
def test_data_parallel_is_counted_as_planned(pattern, devices):
    rows = replace(SMALL, context=16)  # the global batch has a sequence a device, of which a rank takes its own
    found = plan(rows, pattern, devices)
    counted = count(lambda: program(rows, pattern, found.mesh, devices), devices, warm_up=2 * (pattern == "ddp"))
    assert counted == found.stages[0].collectives


@pytest.mark.parametrize(("pattern", "devices", "shape"), [
    ("tp", 2, SMALL), ("tp", 4, SMALL), ("tp", 16, WIDE), ("tp+sp", 2, SMALL), ("tp+sp", 16, WIDE), ("tp", 2, TIED),
    ("hsdp", 8, SMALL), ("hsdp", 1024, SMALL), ("fsdp+tp", 8, SMALL), ("fsdp+tp", 64, WIDE), ("fsdp", 8, TIED),
])  # fmt: skip
def test_tensor_parallel_and_combinations_are_counted_and_held_as_planned(pattern, devices, shape):
    agrees(shape, pattern, devices)


@pytest.mark.parametrize(("devices", "shape"), [(2, SMALL), (16, WIDE), (8, TIED)])
def test_context_parallel_is_counted_and_held_as_planned(devices, shape):
    found = plan(shape, "cp", devices)
    (share,) = found.stages

    def build():
        return program(shape, "cp", found.mesh, found.batch)

    assert count(build, devices) == share.collectives
    # A CPU's kernel has no mask of the last piece, to which all positions are in sight: it keeps one in float32.
    mask = shape.layers * shape.context // (2 * devices) * shape.context * 4
    kept = held(build, devices)
    assert replace(kept, activations=kept.activations - mask) == share.held


@pytest.mark.parametrize(("pattern", "devices"), [("tp", 2), ("tp+sp", 16), ("fsdp+tp", 8)])
def test_gathered_logits_are_counted_and_held_as_planned(pattern, devices):
    agrees(WIDE, pattern, devices, gathered_logits=True)


@pytest.mark.parametrize(("pattern", "devices"), [("ddp", 8), ("fsdp", 8), ("tp", 4), ("tp+sp", 2), ("cp", 4)])
def test_what_travels_in_bf16_is_counted_as_planned(pattern, devices):
    found = plan(SMALL, pattern, devices, precision="bf16")

    def build():
        return program(SMALL, pattern, found.mesh, found.batch, dtype=torch.bfloat16)

    assert count(build, devices, warm_up=2 * (pattern == "ddp")) == found.stages[0].collectives


@pytest.mark.parametrize("pattern", ["ddp", "fsdp"])
def test_data_parallel_holds_what_is_planned(pattern):
    agrees(SMALL, pattern, 8)


def on_four_ranks(cases):
    found = []
    for shape, pattern, mesh, batch, microbatches, *dtype in cases:
        made = program(shape, pattern, mesh, batch, microbatches, *dtype)
        found.append((collectives.counted(made, warm_up=1), collectives.held_here(made)))
    return found


@pytest.mark.slow
def test_a_pipeline_on_real_ranks_is_counted_and_held_as_planned():
    four = replace(MINI, context=16)
    cases = [
        (four, "pp", {"pp": 4}, 8, 8),
        (replace(four, tied_head=True), "pp", {"pp": 4}, 8, 4),
        (four, "pp+fsdp", {"pp": 2, "shard": 2}, 16, 4),
        (four, "pp+fsdp", {"pp": 2, "shard": 2}, 16, 8),
        (four, "pp+tp", {"pp": 2, "tp": 2}, 8, 4),
        (four, "fsdp", {"shard": 4}, 8, 1),
    ]
    travelling = [(four, "pp", {"pp": 4}, 8, 8, torch.bfloat16), (four, *cases[2][1:], torch.bfloat16)]
    real = ranks.run(on_four_ranks, 4, cases + travelling, timeout=600)
    for index, (shape, pattern, mesh, batch, microbatches) in enumerate(cases):
        found = plan(shape, pattern, mesh, batch=batch, microbatches=microbatches)
        for stage, share in enumerate(found.stages):
            counted = real[stage * 4 // len(found.stages)][index]
            assert counted == (share.collectives, share.held), (pattern, mesh, stage)
    for index, (shape, pattern, mesh, batch, microbatches, _) in enumerate(travelling, len(cases)):
        found = plan(shape, pattern, mesh, batch=batch, microbatches=microbatches, precision="bf16")
        for stage, share in enumerate(found.stages):
            assert real[stage * 4 // len(found.stages)][index][0] == share.collectives, (pattern, stage)


@pytest.mark.parametrize(("pattern", "mesh"), [
    ("fsdp", {"shard": 64}), ("tp", {"tp": 8}), ("fsdp+tp", {"shard": 16, "tp": 8}),
])  # fmt: skip
def test_billions_of_parameters_are_counted_without_memory(pattern, mesh):
    assert parameter_count(LARGE) > 6.5e9
    found, fake = plan(LARGE, pattern, mesh, batch=mesh.get("shard", 1), length=128), collectives.without_memory()

    def build():
        made = init_device_mesh("cpu", tuple(mesh.values()), mesh_dim_names=tuple(mesh))
        with fake:
            model = MiniGPT(LARGE)
        model = parallel.parallelize(model, pattern, made)

        def step():
            with fake:
                tokens = torch.zeros(1, 128, dtype=torch.int64)
                model.run(tokens, tokens)

        return Program(step, model.parts, made)

    assert count(build, found.devices) == found.stages[0].collectives


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


def test_a_ring_sends_its_share_to_the_neighbour_in_each_round():
    assert Collective("all_reduce", "x", 4, 1, 1000).sent_nbytes == 1500
    assert Collective("all_gather", "x", 4, 3, 1000).sent_nbytes == 750
    assert Collective("reduce_scatter", "x", 8, 1, 800).sent_nbytes == 700


def test_formulas_in_closed_form():
    """The textbook ones, for a model whose rows divide: 2 P (n-1)/n for DDP, the blocks once more for FSDP."""
    even = replace(MINI, vocabulary=640)
    whole = 4 * parameter_count(even)
    blocks = 4 * sum(each.numbers() * each.count for each in parameters(even) if each.part == "block")
    assert plan(even, "ddp", 8).sent_nbytes == 2 * whole * 7 / 8
    assert plan(even, "fsdp", 8).sent_nbytes == (2 * whole + blocks) * 7 / 8
    one, eight = plan(even, "one device", 1).fullest.held, plan(even, "fsdp", 8).fullest.held
    assert (one.parameters, one.optimizer) == (whole, 2 * whole)
    assert (8 * eight.parameters, 8 * eight.optimizer) == (whole, 2 * whole)
    assert eight.activations == plan(even, "one device", 1).fullest.held.activations


def test_sequence_parallel_sends_what_tensor_parallel_does_and_holds_less():
    plain, sequence = (plan(MINI, pattern, 4) for pattern in ("tp", "tp+sp"))
    extra = 2 * 3 / 4 * 4 * (2 * (2 * MINI.layers + 1) * MINI.dim + MINI.context * MINI.dim)  # norms; positions
    assert sequence.sent_nbytes - plain.sent_nbytes == extra
    assert sequence.fullest.held.activations < plain.fullest.held.activations


def test_names_and_sizes_are_those_of_the_model():
    for shape in (MINI, GPT2_124M, TIED):
        with torch.device("meta"):
            real = {name: tuple(each.shape) for name, each in MiniGPT(shape).named_parameters()}
        ours = {
            each.name.replace("*", str(layer)): each.shape for each in parameters(shape) for layer in range(each.count)
        }
        assert ours == real
    assert parameter_count(GPT2_124M) == 124_439_808


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
