"""ZeRO-1 and 2, FSDP that keeps what it gathered, checkpointing: formulas against programs on a fake group."""

from dataclasses import replace

import pytest
import torch
import torch.distributed as dist
from torch.distributed.fsdp import FSDPModule
from torch.utils.checkpoint import checkpoint

from compile_lab.devices.collectives import Program, count, held
from compile_lab.simulator.patterns import plan
from compile_lab.simulator.recommendation import Network, compute_s
from compile_lab.simulator.sharding import parameter_count, parameters
from mini_model import parallel
from mini_model.model import MINI, MiniGPT

SMALL = replace(MINI, layers=3)
EVEN = replace(SMALL, vocabulary=640)


def program(shape, pattern, mesh, batch, dtype=None, change=lambda model: None):
    made = parallel.make_mesh(pattern, **mesh)
    tokens = torch.randint(shape.vocabulary, (batch, shape.context))
    model = MiniGPT(shape)
    spread = parallel.parallelize(model, pattern, made, dtype=dtype)
    change(spread.parts[0])
    return Program(lambda: spread.step(tokens, tokens, average=False), spread.parts, made)


def keep_what_is_gathered(model):
    for module in model.modules():
        if isinstance(module, FSDPModule):
            module.set_reshard_after_forward(False)


@pytest.mark.parametrize(("devices", "dtype", "precision"), [(8, None, "fp32"), (64, None, "fp32"),
                                                             (4, torch.bfloat16, "bf16")])  # fmt: skip
def test_fsdp_without_reshard_is_counted_and_held_as_planned(devices, dtype, precision):
    found = plan(SMALL, "fsdp, kept", devices, precision=precision)

    def build():
        return program(SMALL, "fsdp", found.mesh, found.batch, dtype, keep_what_is_gathered)

    assert count(build, devices) == found.stages[0].collectives
    if dtype is None:
        assert held(build, devices) == found.stages[0].held


class Zero:
    """Stages 1 and 2 by hand: gradients are reduce-scattered unit by unit, each slice updated, parameters gathered."""

    def __init__(self, stage):
        self.ranks = dist.get_world_size()
        self.model, self.stage = MiniGPT(EVEN), stage
        blocks = list(self.model.blocks)
        inside = {id(p) for block in blocks for p in block.parameters()}
        self.units = [list(block.parameters()) for block in blocks]
        self.units.append([p for p in self.model.parameters() if id(p) not in inside])
        self.state = [[torch.zeros(self.slice(p)) for p in unit] for unit in self.units for _ in range(2)]

    def slice(self, parameter):
        return -(-len(parameter) // self.ranks) * (parameter[0].numel())

    def flat(self, tensors):
        rows = [torch.cat([t, t.new_zeros(-len(t) % self.ranks, *t.shape[1:])]).view(self.ranks, -1) for t in tensors]
        return torch.cat(rows, 1)

    def step(self, tokens):
        self.model.zero_grad()
        self.model(tokens, tokens).backward()
        self.kept = 0
        for unit in self.units:
            whole = self.flat([p.grad for p in unit])
            mine = torch.empty_like(whole[0])
            dist.reduce_scatter_tensor(mine, whole.flatten())
            self.kept += 4 * (mine.numel() if self.stage == 2 else sum(p.grad.numel() for p in unit))
        for unit in self.units:
            whole = self.flat([p.detach() for p in unit])
            dist.all_gather_into_tensor(torch.empty_like(whole).flatten(), whole[0].clone())


@pytest.mark.filterwarnings("ignore:.*deprecated:FutureWarning")
@pytest.mark.parametrize("devices", [2, 8, 64])
@pytest.mark.parametrize("stage", [1, 2])
def test_zero_by_hand_is_counted_and_held_as_planned(stage, devices):
    made = []

    def build():
        made.append(Zero(stage))
        tokens = torch.randint(EVEN.vocabulary, (1, EVEN.context))
        return Program(lambda: made[-1].step(tokens), [made[-1].model], None)

    share = plan(EVEN, f"zero-{stage}", devices).stages[0]
    counted = count(build, devices)
    assert [(c.kind, c.count, c.payload_nbytes) for c in counted] == [
        (c.kind, c.count, c.payload_nbytes) for c in share.collectives
    ]
    assert share.held.gradients == made[-1].kept
    assert share.held.optimizer == 4 * sum(t.numel() for unit in made[-1].state for t in unit)


def test_the_stages_of_zero_hold_what_the_paper_says():
    """Rajbhandari et al. (2020), section 5 and 7: DDP's traffic up to stage 2, half as much again for stage 3."""
    names = ("ddp", "zero-1", "zero-2", "fsdp, kept", "fsdp")
    plans = [plan(EVEN, name, 8) for name in names]
    whole = 4 * parameter_count(EVEN)
    kinds = [(p.fullest.held.parameters, p.fullest.held.gradients, p.fullest.held.optimizer) for p in plans]
    eighth = whole // 8
    assert kinds == [(whole, whole, 2 * whole), (whole, whole, 2 * eighth), (whole, eighth, 2 * eighth)] + 2 * [
        (eighth, eighth, 2 * eighth)
    ]
    blocks = 4 * sum(each.numbers() * each.count for each in parameters(EVEN) if each.part == "block")
    assert [p.sent_nbytes * 8 // 7 for p in plans] == [2 * whole] * 4 + [2 * whole + blocks]


def test_what_is_gathered_and_kept_is_there_at_the_turn():
    kept, again = (plan(SMALL, name, 8).fullest for name in ("fsdp, kept", "fsdp"))
    block = 4 * sum(each.numbers() for each in parameters(SMALL) if each.part == "block")
    assert kept.buffers_nbytes - again.buffers_nbytes == (SMALL.layers - 2) * block


def recompute_layers(model):
    for block in model.blocks if not hasattr(model.blocks, "values") else model.blocks.values():
        block.forward = lambda *given, inner=block.forward: checkpoint(inner, *given, use_reentrant=False)


@pytest.mark.parametrize(("pattern", "devices"), [("ddp", 2), ("tp", 4), ("tp+sp", 2), ("fsdp", 4), ("cp", 4)])
def test_checkpointed_layers_are_counted_and_held_as_planned(pattern, devices):
    found = plan(SMALL, pattern, devices, checkpointing=True)

    def build():
        return program(SMALL, pattern, found.mesh, found.batch, change=recompute_layers)

    assert held(build, devices) == found.stages[0].held
    assert count(build, devices, warm_up=2 * (pattern == "ddp")) == found.stages[0].collectives


def test_checkpointing_computes_the_layers_forward_twice():
    plain, again = (plan(SMALL, "ddp", 4, checkpointing=on) for on in (False, True))
    blocks = sum(each.numbers() * each.count for each in parameters(SMALL) if each.part == "block")
    per_token = 2 * blocks + 4 * SMALL.layers * SMALL.dim * SMALL.context
    more = (compute_s(again, Network()) - compute_s(plain, Network())) * Network().flop_per_s
    assert more == pytest.approx(per_token * SMALL.context)
    assert again.total_nbytes < plain.total_nbytes
