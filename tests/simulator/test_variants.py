"""ZeRO-1 and 2, FSDP that keeps what it gathered, checkpointing: formulas against programs by hand, and the paper.

FSDP's own programs, and checkpointed ones, are counted in test_patterns.py.
"""

from dataclasses import replace

import pytest
import torch
import torch.distributed as dist

from compile_lab.devices.collectives import Program, count
from compile_lab.simulator.patterns import plan
from compile_lab.simulator.recommendation import Network, compute_s
from compile_lab.simulator.sharding import parameter_count
from mini_model.model import MINI, MiniGPT

SMALL = replace(MINI, layers=3)
EVEN = replace(SMALL, vocabulary=640)


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
@pytest.mark.parametrize("devices", [8, 64])
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
    blocks = 4 * parameter_count(EVEN, part="block")
    assert [p.sent_nbytes * 8 // 7 for p in plans] == [2 * whole] * 4 + [2 * whole + blocks]


def test_what_is_gathered_and_kept_is_there_at_the_turn():
    kept, again = (plan(SMALL, name, 8).fullest for name in ("fsdp, kept", "fsdp"))
    block = 4 * parameter_count(SMALL, part="block") // SMALL.layers
    assert kept.buffers_nbytes - again.buffers_nbytes == (SMALL.layers - 2) * block


def test_checkpointing_computes_the_layers_forward_twice():
    plain, again = (plan(SMALL, "ddp", 4, checkpointing=on) for on in (False, True))
    blocks = parameter_count(SMALL, part="block")
    per_token = 2 * blocks + 4 * SMALL.layers * SMALL.dim * SMALL.context
    more = (compute_s(again, Network()) - compute_s(plain, Network())) * Network().flop_per_s
    assert more == pytest.approx(per_token * SMALL.context)
    assert again.total_nbytes < plain.total_nbytes
