"""SimpleFSDP: the loss and gradients of one process; what is gathered, when and in which type."""

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard

from compile_lab.aot import training_graphs
from compile_lab.devices import fake_process_group, ranks
from mini_model.model import GPTConfig, MiniGPT
from mini_model.simple_fsdp import simple_fsdp

pytestmark = pytest.mark.processes

SMALL = GPTConfig(vocabulary=64, context=8, dim=16, layers=1, heads=2, tied_head=True)
TOKENS = torch.randint(0, 64, (4, 8), generator=torch.Generator().manual_seed(1))


def gpt():
    torch.manual_seed(0)
    return MiniGPT(SMALL)


def own(name):
    """What the parameter was called before it was sliced."""
    return name.replace(".parametrizations", "").removesuffix(".original")


def beside_one_process(backend, **options):
    """How far this rank's loss, averaged, and its whole gradients are from those of the plain model."""
    mesh, plain = init_device_mesh("cpu", (dist.get_world_size(),)), gpt()
    model = simple_fsdp(gpt(), mesh, **options)
    run = torch.compile(model, backend=backend, fullgraph=True) if backend else model
    exact = plain(TOKENS, TOKENS)
    exact.backward()
    rows = TOKENS.chunk(mesh.size())[mesh.get_local_rank()]
    with torch.autocast("cpu", torch.bfloat16, enabled="dtype" in options):
        loss = run(rows, rows)
    loss.backward()
    mean = loss.detach().clone()
    dist.all_reduce(mean)
    wanted, off, size = dict(plain.named_parameters()), 0.0, 0.0
    for name, slices in model.named_parameters():
        assert slices.grad.dtype == torch.float32 and slices.grad.placements == (Shard(0),)
        gradient = wanted.pop(own(name)).grad
        off += (slices.grad.full_tensor() - gradient).square().sum().item()
        size += gradient.square().sum().item()
    assert not wanted, "every parameter has its gradient, under its own name"
    return abs(mean.item() / mesh.size() - exact.item()), (off / size) ** 0.5


def several():
    compared = [
        beside_one_process(None),
        beside_one_process("aot_eager"),
        beside_one_process("aot_eager", again=True),
        beside_one_process(None, dtype=torch.bfloat16),
    ]
    return compared, padded_or_not()


@pytest.fixture(scope="module")
def on_two_ranks():
    return ranks.run(several, 2, timeout=600)


@pytest.mark.slow
def test_loss_and_gradients_are_those_of_one_process(on_two_ranks):
    for (*exact, narrow), _ in on_two_ranks:
        assert all(loss < 1e-6 and gradients < 1e-6 for loss, gradients in exact), exact
        assert narrow[0] < 0.02 and 1e-4 < narrow[1] < 0.02, "bf16 is bf16, and no more than that"


def collectives(graph, name):
    return [node for node in graph.nodes if name in node.op and "functional" in node.op]


def step(**options):
    with fake_process_group(8):
        model = simple_fsdp(gpt(), init_device_mesh("cpu", (8,)), **options)
        with torch.autocast("cpu", torch.bfloat16, enabled="dtype" in options):
            return training_graphs(model, TOKENS, TOKENS), sum(1 for _ in model.parameters())


@pytest.mark.slow
def test_every_parameter_is_gathered_once_and_again_only_if_asked():
    kept = []
    for again in (False, True):
        graphs, parameters = step(again=again)
        assert len(collectives(graphs.forward, "all_gather")) == parameters == 16
        # The tied matrix is read twice: one gather serves both, but each reader's gradient is reduced for itself.
        assert len(collectives(graphs.backward, "reduce_scatter")) == parameters + 1
        assert len(collectives(graphs.backward, "all_gather")) == (8 if again else 0)
        kept.append(sum(each.nbytes for each in graphs.saved if not each.name.startswith("primals")))
    blocks = sum(each.nbytes for each in gpt().blocks.parameters())
    assert kept[0] - kept[1] > 0.9 * blocks, "gathered again, the blocks' weights are not kept"


@pytest.mark.slow
def test_a_narrow_gather_sends_half_the_bytes_and_gradients_are_reduced_in_full():
    wide, narrow = (step(**options)[0] for options in ({}, {"dtype": torch.bfloat16}))
    sent = [sum(node.nbytes for node in collectives(graphs.forward, "all_gather")) for graphs in (wide, narrow)]
    assert sent[0] == 2 * sent[1]
    sent = [sum(node.nbytes for node in collectives(graphs.backward, "reduce_scatter")) for graphs in (wide, narrow)]
    assert sent[0] == sent[1]


def test_a_slice_does_not_keep_the_whole_alive_and_a_tied_parameter_stays_one():
    with fake_process_group(4, rank=3):
        model, plain = simple_fsdp(gpt(), init_device_mesh("cpu", (4,))), gpt()
        whole = dict(plain.named_parameters())
        for name, slices in model.named_parameters():
            local = slices.to_local()
            assert torch.equal(local, whole.pop(own(name)).chunk(4)[3]) and slices.requires_grad
            assert local.untyped_storage().nbytes() == local.nbytes
        assert not whole
        assert model.head.parametrizations.weight.original is model.token_embedding.parametrizations.weight.original


def padded_or_not():
    """The last of all: what it puts into the module stays there."""
    from mini_model import simple_fsdp as module

    module._check = lambda *_: None
    module._slices = lambda parameter, mesh: torch.distributed.tensor.distribute_tensor(
        parameter.detach(), mesh, [Shard(0)], src_data_rank=None
    )
    torch.manual_seed(0)
    model = simple_fsdp(nn.Linear(4, 5), init_device_mesh("cpu", (2,)))
    graphs = training_graphs(lambda x: model(x).square().sum(), torch.ones(3, 4, requires_grad=True))
    return [node.op for node in graphs.forward.nodes if "pad" in node.op]


@pytest.mark.slow
def test_rows_that_cannot_be_shared_equally_would_make_other_graphs_on_other_ranks(on_two_ranks):
    (_, first), (_, last) = on_two_ranks
    assert not first and last, "why simple_fsdp refuses them"
