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
    exact = [("aot_eager", {}), ("aot_eager", {"again": True}), (None, {})]
    return [beside_one_process(how, **more) for how, more in (*exact, (None, {"dtype": torch.bfloat16}))]


@pytest.mark.slow
def test_loss_and_gradients_are_those_of_one_process():
    for *exact, narrow in ranks.run(several, 2, timeout=600):
        assert all(loss < 1e-6 and gradients < 1e-6 for loss, gradients in exact), exact
        assert narrow[0] < 0.02 and 1e-4 < narrow[1] < 0.02, "bf16 is bf16, and no more than that"


def collectives(graph, name):
    return [node for node in graph.nodes if name in node.op and "functional" in node.op]


def step(**options):
    with fake_process_group(8):
        model = simple_fsdp(gpt(), init_device_mesh("cpu", (8,)), **options)
        with torch.autocast("cpu", torch.bfloat16, enabled="dtype" in options):
            return training_graphs(model, TOKENS, TOKENS)


@pytest.mark.slow
def test_every_parameter_is_gathered_once_and_again_only_if_asked_and_narrow_with_half_the_bytes():
    plain, again, _ = every = [step(), step(again=True), step(dtype=torch.bfloat16)]
    gathers, again_gathers, reduces = (
        [collectives(getattr(graphs, half), name) for graphs in every]
        for half, name in (("forward", "all_gather"), ("backward", "all_gather"), ("backward", "reduce_scatter"))
    )
    # The tied matrix is read twice: one gather serves both, but each reader's gradient is reduced for itself.
    assert [*map(len, gathers[:2])] == [16, 16] and [*map(len, reduces[:2])] == [17, 17]
    assert [*map(len, again_gathers[:2])] == [0, 8]
    kept = [sum(each.nbytes for each in g.saved if not each.name.startswith("primals")) for g in (plain, again)]
    blocks = sum(each.nbytes for each in gpt().blocks.parameters())
    assert kept[0] - kept[1] > 0.9 * blocks, "gathered again, the blocks' weights are not kept"
    gathered, reduced = ([sum(node.nbytes for node in nodes) for nodes in each] for each in (gathers, reduces))
    assert gathered[0] == 2 * gathered[2] and reduced[0] == reduced[2], "gradients are reduced in full"


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


class Gained(nn.Module):
    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(()))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda mesh: simple_fsdp(nn.Linear(4, 4), mesh), "in slices already"),
        (lambda mesh: Gained(), "gain is a single number"),
        (lambda mesh: nn.Linear(4, 5), "weight has 5 rows, which 2 ranks cannot share equally"),
    ],
)
def test_what_cannot_be_sliced_is_refused_and_left_alone(make, said):
    with fake_process_group(2):
        model = make(mesh := init_device_mesh("cpu", (2,)))
        before = dict(model.named_parameters())
        with pytest.raises(ValueError, match=said):
            simple_fsdp(model, mesh)
        assert before.keys() == dict(model.named_parameters()).keys()
