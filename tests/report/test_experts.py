"""Expert parallel of models unlike each other: which experts are found, what each computes, what devices exchange."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from compile_lab.devices import Program, counted, held_here, ranks
from compile_lab.memory import fake_tensors
from compile_lab.report.experts import expert_parallel, routed_layers
from compile_lab.report.given import given
from compile_lab.report.shares import (
    BATCHED,
    GROUPED,
    MODULES,
    ONE_BY_ONE,
    PatternRefused,
    most_sent_nbytes,
    waiting,
)
from mini_model import parallel
from mini_model.model import GPTConfig, MiniGPT

pytestmark = [pytest.mark.processes, pytest.mark.filterwarnings("ignore:FSDP2-wrapped module")]

MIXED = GPTConfig(vocabulary=60, context=16, dim=32, layers=2, heads=4, experts=8)
WIDTH, HIDDEN, EXPERTS, TOKENS = 16, 32, 4, 24


class Expert(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, HIDDEN), nn.Linear(HIDDEN, WIDTH)

    def forward(self, x):
        return self.down(F.relu(self.up(x)))


class Listed(nn.Module):
    """As Mixtral's first code: a list of modules, each handed the tokens that chose it."""

    def __init__(self, experts=EXPERTS):
        super().__init__()
        self.gate, self.experts = nn.Linear(WIDTH, experts), nn.ModuleList(Expert() for _ in range(experts))

    def chosen(self, x):
        return self.gate(x).topk(2).indices

    def forward(self, x):
        out, chosen = torch.zeros_like(x), self.chosen(x)
        for at, expert in enumerate(self.experts):
            token = torch.where(chosen == at)[0]
            out = out.index_add(0, token, expert(x[token]))
        return out


class Stacked(Listed):
    """The same experts as two parameters, by one matmul for all of them: batched, or grouped in bf16."""

    def __init__(self, way):
        super().__init__()
        del self.experts
        self.up = nn.Parameter(torch.randn(EXPERTS, WIDTH, HIDDEN))
        self.down = nn.Parameter(torch.randn(EXPERTS, HIDDEN, WIDTH))
        self.way = way

    def forward(self, x):
        chosen = self.chosen(x).flatten()
        order = chosen.argsort(stable=True)
        rows = x[order // 2]
        if self.way == GROUPED:
            counts = torch.zeros(EXPERTS, dtype=torch.int64).scatter_add(0, chosen, torch.ones_like(chosen))
            ends = counts.cumsum(0).to(torch.int32)
            up, down = self.up.bfloat16(), self.down.bfloat16()  # copies: not the parameters' own memory
            return F.grouped_mm(F.relu(F.grouped_mm(rows.bfloat16(), up, offs=ends)), down, offs=ends).float()
        boxes = rows[: TOKENS // EXPERTS * EXPERTS].view(EXPERTS, -1, WIDTH)
        return torch.einsum("erh,ehw->erw", torch.bmm(boxes, self.up).relu(), self.down)


class Deep(nn.Module):
    """As many blocks as each has experts, and a weight for each of as many heads: neither is an expert."""

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.heads = nn.Parameter(torch.randn(EXPERTS, WIDTH // EXPERTS, WIDTH // EXPERTS))
            self.moe = Listed()

        def forward(self, x):
            heads = x.view(-1, EXPERTS, WIDTH // EXPERTS).transpose(0, 1)
            return self.moe(torch.bmm(heads, self.heads).transpose(0, 1).reshape(x.shape))

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(self.Block() for _ in range(EXPERTS))

    def forward(self, x):
        for block in self.blocks:
            x = x + block(x)
        return x


def x():
    return torch.randn(TOKENS, WIDTH, generator=torch.Generator().manual_seed(1))


def of(model, *batch):
    torch.manual_seed(0)
    return given(model, batch or x())


@pytest.mark.parametrize(
    ("make", "path", "way", "of_a_number"),
    [(Listed, "experts", MODULES, 4), (lambda: Stacked(GROUPED), "the model", GROUPED, 2)],
    ids=["a list of modules", "grouped matmuls of a copy in bf16"],
)
def test_rows_are_counted_where_each_expert_is_handed_its_own(make, path, way, of_a_number):
    model = make()
    (layer,) = routed_layers(of(model))
    rows = torch.bincount(model.chosen(x()).flatten(), minlength=EXPERTS).tolist()
    assert (layer.path, layer.way, list(layer.rows)) == (path, way, rows)
    assert layer.names == tuple(name for name, _ in model.named_parameters() if not name.startswith("gate."))
    assert layer.there_nbytes == layer.back_nbytes == of_a_number * WIDTH


def test_batched_matmuls_give_each_expert_a_box_and_need_no_counts():
    found = of(Stacked(BATCHED))
    (layer,) = routed_layers(found)
    assert (layer.way, layer.rows) == (BATCHED, (TOKENS // EXPERTS,) * EXPERTS)
    assert waiting([layer], 2) == 1 and [label for label, _ in expert_parallel(found, 2).exchanged] == [
        "all_to_all of rows, on average"
    ]


def test_blocks_and_heads_of_the_same_number_are_no_experts():
    found = routed_layers(of(Deep()))
    assert [layer.path for layer in found] == [f"blocks.{at}.moe.experts" for at in range(EXPERTS)]


@pytest.mark.parametrize(
    ("model", "devices", "why", "todo"),
    [
        (nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU()), 2, "No experts were found", "--pattern fsdp"),
        (Listed(), 3, "The 4 experts of `experts` cannot be divided evenly among 3 devices", "take 2 or 4 devices"),
    ],
    ids=["none", "three"],
)
def test_what_does_not_go_is_refused_with_what_was_looked_for_and_the_way_out(model, devices, why, todo):
    with pytest.raises(PatternRefused) as caught:
        expert_parallel(of(model), devices)
    assert why in caught.value.why and todo in caught.value.todo


def test_without_memory_the_rows_are_an_even_share_and_are_said_to_be_no_count():
    with fake_tensors():
        found = given(Stacked(GROUPED), torch.ones(TOKENS, WIDTH))
    (layer,) = routed_layers(found)
    assert layer.rows == (2 * TOKENS // EXPERTS,) * EXPERTS and not layer.counted


class Leaving(TorchDispatchMode):
    """Bytes that leave this rank in all-to-alls, from the sizes that each is handed."""

    def __init__(self):
        super().__init__()
        self.count = self.nbytes = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if "all_to_all" in func.name() or "alltoall" in func.name():
            functional = "functional" in func.name()
            rows, send = (args[0], args[2]) if functional else (args[1], args[4])
            size, me = torch.distributed.get_world_size(), torch.distributed.get_rank()
            send = list(send) or [len(rows) // size] * size
            self.count += 1
            self.nbytes += (sum(send) - send[me]) * rows[:1].numel() * rows.element_size()
        return func(*args, **(kwargs or {}))


def tokens():
    return torch.randint(60, (4, 16), generator=torch.Generator().manual_seed(2))


def mixture():
    torch.manual_seed(0)
    return MiniGPT(MIXED)


def on_rank(devices):
    """What the book's own expert parallel sends and holds, where every rank has the same rows."""
    rows = torch.cat([tokens()] * devices)
    spread = parallel.parallelize(mixture(), "ep")
    program = Program(lambda: spread.step(rows, rows, average=False), spread.parts, spread.mesh)
    sent = counted(program)
    with Leaving() as leaving:
        program.step()
    for each in spread.parameters():
        each.grad = None
    held = held_here(program)
    return [each for each in sent if each.kind != "all_to_all"], leaving.count, leaving.nbytes, held


def test_what_is_predicted_is_what_the_books_own_expert_parallel_sends_and_holds():
    devices = 4
    step = expert_parallel(given(mixture(), (tokens(), tokens())), devices)
    (_, counts), (_, rows) = step.exchanged
    real = ranks.run(on_rank, devices, devices, timeout=600, echo=False)
    loads = [[layer.sent_nbytes(load) for load in layer.loads(devices)] for layer in step.routed]
    assert {layer.way for layer in step.routed} == {ONE_BY_ONE}
    for rank, (sent, count, nbytes, held) in enumerate(real):
        assert tuple(sent) == step.sent
        assert count == counts.count + rows.count
        assert nbytes == counts.sent_nbytes + sum(load[rank] for load in loads)
        assert replace(held, activations=0) == replace(step.held, activations=0)
    leaving = [nbytes - counts.sent_nbytes for _, _, nbytes, _ in real]
    assert max(leaving) == most_sent_nbytes(step.routed, devices)
    assert sum(leaving) == devices * rows.sent_nbytes


def test_no_hook_stays_on_the_model_or_on_modules_as_a_whole():
    model = Listed()
    routed_layers(of(model))
    hooked = [vars(module)[name] for module in model.modules() for name in vars(module) if "_hooks" in name]
    assert not any(hooked)
    assert not any(each for name, each in vars(nn.modules.module).items() if name.startswith("_global_") and each)
