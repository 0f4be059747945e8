"""Which order a model is wrapped in is read off it, and its verdict is that of the grid that ran these orders."""

import pytest
import torch
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from compile_lab import recordings
from compile_lab._torch.aot import functorch_config
from compile_lab.devices import fake_process_group
from compile_lab.report.captured import ReportOptions, captured
from compile_lab.report.given import GivenModel, given
from compile_lab.report.model import card, cards_of
from compile_lab.report.parallel import PATTERNS, on_devices
from compile_lab.report.questions import QUESTIONS
from compile_lab.report.shares import PatternRefused
from compile_lab.report.wrapping import ERROR, RIGHT, SLOW, wrapping

pytestmark = [pytest.mark.processes, pytest.mark.filterwarnings("ignore")]


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        return x + self.linear(x).tanh()


class Row(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(2))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x.square().mean()


def checkpointed(model):
    model.blocks = nn.ModuleList(map(checkpoint_wrapper, model.blocks))


def compiled_blocks(model):
    for block in model.blocks:
        block.compile(backend="eager")


def wrapped_blocks(model):
    model.blocks = nn.ModuleList(torch.compile(block, backend="eager") for block in model.blocks)


def sharded(model):
    for part in (*model.blocks, model):
        fully_shard(part)


def compiled(model):
    model.compile(backend="eager")


def made(*steps):
    model = Row()
    for step in steps:
        result = step(model)
        model = model if result is None else result
    return model


def reading(model):
    plain = getattr(model, "_orig_mod", model)
    return wrapping(GivenModel("", plain, (), {}, "itself", plain is not model))


@pytest.mark.parametrize(
    ("steps", "blocks", "whole", "outcome", "cure"),
    [
        ((compiled_blocks, sharded), "FSDP2 with compile()", "FSDP2", RIGHT, ""),
        ((sharded, compiled), "FSDP2", "FSDP2 with compile()", SLOW, "block.compile()"),
        ((sharded, lambda m: torch.compile(m)), "FSDP2", "FSDP2 → torch.compile", SLOW, "block.compile()"),
        ((checkpointed, compiled_blocks), "AC → compile()", "", RIGHT, ""),
        ((compiled_blocks, checkpointed), "compile() → AC", "", SLOW, "inside of what is compiled"),
        ((wrapped_blocks, checkpointed, sharded), "torch.compile → AC → FSDP2", "FSDP2", SLOW, "inside"),
        ((sharded, checkpointed, compiled_blocks), "FSDP2 → AC → compile()", "FSDP2", SLOW, "before `fully_shard`"),
        ((compiled_blocks, DistributedDataParallel), "compile()", "DDP", RIGHT, ""),
        ((DistributedDataParallel, compiled), "", "DDP → compile()", RIGHT, ""),
        ((checkpointed, sharded), "AC → FSDP2", "FSDP2", RIGHT, ""),
    ],
)
def test_the_order_is_that_of_nesting(steps, blocks, whole, outcome, cure):
    with fake_process_group(2):
        found = reading(made(*steps))
    assert [each.order for each in found.blocks] == [blocks] * bool(blocks)
    assert found.whole.order == whole and not found.tensor_parallel
    assert found.verdict[0] == outcome and (cure in found.verdict[2] if cure else not found.verdict[2])
    assert found.untraced == ("with" in blocks + whole)


def test_of_a_model_in_which_nothing_is_wrapped_nothing_is_said():
    found = captured(given(Row(), torch.ones(2, 4)), ReportOptions(limit_s=600), only=())
    assert wrapping(found.given) is None and "wrapped" not in cards_of(found)
    assert QUESTIONS["wrapping_order"](found) is None


def test_the_card_names_the_order_the_verdict_and_the_cure_and_so_does_the_question():
    found = captured(given(made(compiled_blocks, checkpointed), torch.ones(2, 4)), ReportOptions(limit_s=600), only=())
    assert "wrapped" in cards_of(found)
    shown = card("wrapped", found)
    assert shown.severity == "bad"
    assert "`blocks.0`, `blocks.1`: compile() → AC. Right, but slow: " in shown.verdict
    assert "AC → `block.compile()` → FSDP2 or DDP" in shown.parts[0].text
    assert "cannot be read off" not in " ".join(part.text for part in shown.parts)
    answer = QUESTIONS["wrapping_order"](found)
    assert "right, but slow" in answer.title and "twice in a step" in answer.told


def test_what_came_first_in_place_is_said_to_be_unreadable():
    with fake_process_group(2):
        found = captured(given(made(compiled_blocks, sharded), torch.ones(2, 4)), ReportOptions(limit_s=600), only=())
        shown = card("wrapped", found)
    assert shown.severity == "good" and QUESTIONS["wrapping_order"](found) is None
    assert any("cannot be read off" in part.text for part in shown.parts)


def test_a_step_on_a_part_of_a_block_counts_too():
    model = Row()
    for block in model.blocks:
        block.linear.compile(backend="eager")
    found = reading(made(lambda _: model, checkpointed))
    assert found.verdict[0] == SLOW and "runs twice" in found.verdict[1]
    model = Row()
    for block in model.blocks:
        block.linear = checkpoint_wrapper(block.linear)
    compiled_blocks(model)
    assert reading(model).verdict[0] == RIGHT


def test_what_is_sharded_already_is_not_sharded_again_and_all_its_parameters_are_used():
    with fake_process_group(2):
        found = given(made(sharded), torch.ones(2, 4))
        assert found.unused == ()
        for pattern in PATTERNS:
            with pytest.raises(PatternRefused, match="under FSDP2, DDP or TP; hand over the model before"):
                on_devices(found, 2, pattern)


NOT_READ = {("FSDP2", "model.compile(fullgraph=True)"): SLOW}
"""``fullgraph`` leaves nothing that can be read off; the verdict says that torch raises with it."""


@pytest.mark.slow
def test_its_verdicts_are_those_of_the_grid_that_ran_these_orders():
    grid = pytest.importorskip("chapters.where_to_compile.grid")
    decisions = pytest.importorskip("chapters.where_to_compile.decisions")
    orders = pytest.importorskip("chapters.where_to_compile.experiments.compile_orders")
    counting = pytest.importorskip("chapters.shared.counting")
    cells = orders.recorded(recordings.load("compile_orders").result).cells
    best = {decisions.recommended(name, ac) for name in decisions.SPREADS if name != "TP and DDP" for ac in (0, 1)}
    compared = 0
    for cases, shape in ((grid.ONE_AXIS, (2,)), (grid.TWO_AXES, (2, 2))):
        with fake_process_group(2 ** len(shape)):
            mesh = torch.distributed.init_device_mesh(
                "cpu", shape, mesh_dim_names=("data", "tensor") if len(shape) == 2 else None
            )
            for case in cases:
                if case[0] == "FSDP2" and {"TP", "SP"} & set(case):
                    continue  # torch refuses to slice what is sharded: there is nothing to hand over
                model = grid.small_model()
                for step in case:
                    model = grid._taken(step, model, mesh, counting.Counting())
                with functorch_config.patch(activation_memory_budget=grid.BUDGET if "budget" in case else 1.0):
                    found = reading(model)
                    outcome, _, cure = found.verdict
                assert outcome == NOT_READ.get(case, cells[case].outcome), case
                assert not (cure and case in best), case
                assert found.tensor_parallel == bool({"TP", "SP"} & set(case)), case
                compared += 1
    assert compared == len(cells) - 2 and {cell.outcome for cell in cells.values()} > {RIGHT, SLOW, ERROR}
