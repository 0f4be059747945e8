"""The grid: a case is a tuple of steps, in the order in which a program takes them; a run says what becomes of it.

Every case is run on real ranks over gloo. Its loss and its gradients are compared with those of one process in eager
mode, and a backend counts what was compiled.
"""

import gc
import math
import re
import textwrap
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.checkpoint.state_dict import get_model_state_dict
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate
from torch.nn.parallel import DistributedDataParallel

from compile_lab._torch.aot import functorch_config
from compile_lab._torch.dynamo import dynamo_utils
from compile_lab.devices import ranks
from compile_lab.recordings import RecordedRow

from ..shared import subjects
from ..shared.counting import Counting
from .clipping import clip_by_mesh

Case = tuple[str, ...]

RIGHT, SLOW, WRONG, ERROR = OUTCOMES = "right", "right, but slow", "wrong", "error"
"""What may become of a case. Slow: torch does not say so, and less is compiled or sharded than was asked for."""
LAYERS = 2

BLOCK, BLOCK_OF, MODEL, MODEL_OF = "block.compile()", "torch.compile(block)", "model.compile()", "torch.compile(model)"
FULL = "model.compile(fullgraph=True)"
WHOLE = MODEL, MODEL_OF, FULL
COMPILES = BLOCK, BLOCK_OF, *WHOLE
TENSOR = "TP", "SP"
BUCKET_MB = 1
"""DDP's ``bucket_cap_mb``, the smallest that Dynamo takes: the model fills two."""
BUDGET = 0.3
"""``activation_memory_budget``: of the bytes that the compiler would save without one."""
WRAPPED = re.compile(r"(?<!\w)(?:_orig_mod|_checkpoint_wrapped_module|module)\.")
"""What wrappers put into the names of parameters."""


def _both(*cases: str) -> list[Case]:
    return [tuple(part.strip() for part in case.split("|")) for case in cases]


ONE_AXIS = _both(
    BLOCK, BLOCK_OF, MODEL, MODEL_OF,
    f"AC | {BLOCK}", f"{BLOCK} | AC", f"AC | {BLOCK_OF}", f"{BLOCK_OF} | AC", f"AC | {MODEL}", f"{MODEL} | AC",
    f"DDP | {MODEL}", f"DDP | {MODEL_OF}", f"{MODEL} | DDP", f"{MODEL_OF} | DDP",
    f"{BLOCK} | DDP", f"DDP | {BLOCK}", f"AC | {BLOCK} | DDP", f"{BLOCK} | AC | DDP", f"AC | DDP | {MODEL_OF}",
    f"{BLOCK} | FSDP2", f"FSDP2 | {BLOCK}", f"{BLOCK_OF} | FSDP2", f"FSDP2 | {BLOCK_OF}",
    f"FSDP2 | {MODEL}", f"FSDP2 | {MODEL_OF}", f"{MODEL} | FSDP2", f"{MODEL_OF} | FSDP2",
    f"AC | {BLOCK} | FSDP2", f"{BLOCK} | AC | FSDP2", f"AC | FSDP2 | {BLOCK}", f"FSDP2 | AC | {BLOCK}",
    f"AC | FSDP2 | {MODEL}", f"FSDP2 | {FULL}",
    f"TP | {BLOCK}", f"{BLOCK} | TP", f"TP | {MODEL}", f"{MODEL} | TP", f"TP | {BLOCK_OF}", f"{BLOCK_OF} | TP",
    f"TP | AC | {BLOCK}", f"TP | {BLOCK} | AC", f"TP | AC | {MODEL}",
    f"TP | budget | {BLOCK}", f"SP | budget | {BLOCK}", f"budget | {BLOCK} | FSDP2",
    f"SP | {BLOCK}", f"{BLOCK} | SP", f"SP | {MODEL}", f"SP | AC | {BLOCK}", f"SP | {BLOCK} | AC",
)  # fmt: skip
"""On two ranks."""

TWO_AXES = _both(
    f"TP | {BLOCK} | FSDP2", f"TP | FSDP2 | {BLOCK}", f"TP | AC | {BLOCK} | FSDP2", f"TP | {BLOCK} | AC | FSDP2",
    f"SP | {BLOCK} | FSDP2", f"SP | FSDP2 | {BLOCK}", f"SP | AC | {BLOCK} | FSDP2", f"SP | {BLOCK} | AC | FSDP2",
    f"SP | FSDP2 | {MODEL}", f"FSDP2 | TP | {BLOCK}", f"FSDP2 | SP | {BLOCK}", f"TP | {BLOCK} | DDP", "TP | DDP",
    f"TP | budget | {BLOCK} | FSDP2", f"SP | budget | {BLOCK} | FSDP2",
)  # fmt: skip
"""On four, two by two: along the one axis FSDP2 or DDP, along the other TP or SP."""


@dataclass(frozen=True)
class Cell(RecordedRow):
    """What became of a case: numbers of its second training step, on the rank that is furthest off."""

    steps: Sequence[str]
    error: str = ""
    """The step of the case, and the first line of what torch said there; empty where the training steps ran."""
    wrong_by: float = 0.0
    """How far loss or a gradient is from one process's in eager mode, relative to its largest element."""
    graphs: int = 0
    """That the backend got in two training steps."""
    breaks: int = 0
    """What torch's counter of graph breaks says."""
    forward_runs: int = 0
    """Forward graphs that ran, and the calls in them."""
    nodes_run: int = 0
    loss: bool = False
    """The loss is in a compiled graph."""
    held: float = 1.0
    """The share of the parameters that this rank holds."""
    name: str = ""
    """A name in the state dict that the plain model does not have; empty where there is none."""
    saved_name: str = ""
    """The same of ``get_model_state_dict``."""
    lost: int = 0
    """How many parameters ``model.parameters()`` no longer has after the steps."""
    clip: str = ""
    """Why ``clip_grad_norm_`` fails, or which norm it gives; empty where it gives one process's."""
    clip_by_mesh: str = ""
    """The same of `clipping.clip_by_mesh`."""

    @property
    def order(self) -> str:
        return " → ".join(self.steps)

    @property
    def outcome(self) -> str:
        return self.verdict[0]

    @property
    def severity(self) -> int:
        """The larger, the worse: an error says so, and what is wrong does not."""
        return (RIGHT, SLOW, ERROR, WRONG).index(self.outcome)

    @property
    def verdict(self) -> tuple[str, str]:
        """One of `OUTCOMES`, and why, from the numbers alone."""
        way = next((step for step in self.steps if step in COMPILES), None)
        if self.error:
            return ERROR, self.error
        if self.wrong_by > 1e-4:
            return WRONG, f"a gradient is {self.wrong_by:.1g} of its size off"
        if self.lost:
            return WRONG, f"{self.lost} parameters are missing from `model.parameters()` after a step"
        if set(TENSOR) & set(self.steps) and self.held > 0.8:
            return SLOW, f"the blocks are not sharded: each rank holds {100 * self.held:.0f} % of the parameters"
        if way and not self.forward_runs:
            return SLOW, "nothing is compiled: every block runs in eager mode"
        if way in WHOLE and not self.loss:
            return SLOW, "only the blocks are compiled, although the whole model was asked for"
        if way not in WHOLE and self.forward_runs >= 2 * LAYERS:
            return SLOW, "each block's compiled forward runs twice in a step"
        return RIGHT, f"{self.nodes_run} calls of the forward are compiled"


def run(cases: Sequence[Case], shape: tuple[int, ...] = (2,)) -> list[Cell]:
    """Each case on a mesh of so many ranks. Raises RankFailed where a rank came to no end.

    A compilation that fails may leave something behind in its process, so the case after it gets new ranks.
    """
    cells: list[Cell] = []
    while len(cells) < len(cases):
        found = ranks.run(on_rank, math.prod(shape), list(cases[len(cells) :]), shape, echo=False)
        cells += [max(each, key=lambda cell: (bool(cell.error), cell.wrong_by)) for each in zip(*found, strict=True)]
    return cells


def on_rank(cases: Iterable[Case], shape: tuple[int, ...]) -> list[Cell]:
    """On this rank: the cases, one after another, up to the first that fails."""
    warnings.simplefilter("ignore")
    mesh = init_device_mesh("cpu", shape, mesh_dim_names=("data", "tensor") if len(shape) == 2 else None)
    cells: list[Cell] = []
    for case in cases:
        cells.append(_cell(case, mesh, *_expected("TP" in case or "SP" in case)))
        if cells[-1].error:
            break
    return cells


def small_model(headwise: bool = False) -> "subjects.MiniGPT":
    """MiniGPT of two blocks of width 128 with seeded weights; q, k and v in the order of the heads, as TP cuts them."""
    model = subjects.deep_gpt(layers=LAYERS, dim=128, heads=2, context=16, vocabulary=64)
    return subjects.headwise(model) if headwise else model


def _expected(headwise: bool) -> tuple[Tensor, dict[str, Tensor], float]:
    """One process's loss, gradients and their norm."""
    model = small_model(headwise)
    loss = model(*subjects.tokens(model, 4))
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1e9).item()
    return loss.detach(), {name: each.grad for name, each in model.named_parameters() if each.grad is not None}, norm


def _cell(case: Case, mesh: DeviceMesh, loss: Tensor, gradients: dict[str, Tensor], norm: float) -> Cell:
    torch.compiler.reset()
    dynamo_utils.counters.clear()
    gc.collect()
    model: nn.Module = small_model()
    counting, doing = Counting(), "building"
    try:
        with functorch_config.patch(activation_memory_budget=BUDGET if "budget" in case else 1.0):
            for doing in case:
                model = _taken(doing, model, mesh, counting)
            doing = "the first step"
            given = _own_rows(case, mesh)
            for _ in range(2):
                model.zero_grad()
                counting.begin()
                got = model(*given)
                got.backward()
        wrong_by = _wrong_by(model, got.detach(), loss, gradients)
    except Exception as error:
        return Cell(case, f"{doing}: {first_line(error)}", graphs=counting.graphs)
    sizes = [(each.to_local() if isinstance(each, DTensor) else each).numel() for each in model.parameters()]
    return Cell(
        case,
        wrong_by=wrong_by,
        graphs=counting.graphs,
        breaks=sum(dynamo_utils.counters["graph_break"].values()),
        forward_runs=counting.forward_runs,
        nodes_run=counting.nodes_run,
        loss=counting.loss,
        lost=len(gradients) - len(sizes),
        held=sum(sizes) / sum(each.numel() for each in gradients.values()),
        name=_foreign(model.state_dict(), gradients),
        saved_name=_foreign(get_model_state_dict(model), gradients),
        clip=_clipped(nn.utils.clip_grad_norm_, model, norm),
        clip_by_mesh=_clipped(clip_by_mesh, model, norm),
    )


def _own_rows(case: Case, mesh: DeviceMesh) -> tuple[Tensor, ...]:
    """Tokens and targets: of a model that is split by rows of the batch, this rank's."""
    given = subjects.tokens(small_model(), 4)
    if "FSDP2" not in case and "DDP" not in case:
        return given
    data = _axis(mesh, "data")
    return tuple(each.chunk(data.size())[data.get_local_rank()] for each in given)


def _axis(mesh: DeviceMesh, name: str) -> DeviceMesh:
    return mesh[name] if mesh.ndim > 1 else mesh


def _taken(step: str, model: nn.Module, mesh: DeviceMesh, backend: Counting) -> nn.Module:
    """The model after a step, which is taken as a program would write it."""
    within = model.module if isinstance(model, DistributedDataParallel) else model
    compiled: Callable[..., Any] = torch.compile  # which types a module that it has wrapped as a function
    match step:
        case "TP" | "SP":
            plain = cast("subjects.MiniGPT", model)  # whose class only subjects may know
            return subjects.styled(plain, _axis(mesh, "tensor"), sequence=step == "SP")
        case "AC":
            model.blocks = nn.ModuleList(checkpoint_wrapper(b) for b in model.get_submodule("blocks").children())
        case "block.compile()":
            for block in within.get_submodule("blocks").children():
                block.compile(backend=backend)
        case "torch.compile(block)":
            model.blocks = nn.ModuleList(compiled(b, backend=backend) for b in model.get_submodule("blocks").children())
        case "model.compile()" | "model.compile(fullgraph=True)":
            model.compile(backend=backend, fullgraph=step == FULL)
        case "torch.compile(model)":
            return compiled(model, backend=backend)
        case "FSDP2":
            for part in (*model.get_submodule("blocks").children(), model):
                fully_shard(part, mesh=_axis(mesh, "data"))
        case "DDP":
            return DistributedDataParallel(model, device_mesh=_axis(mesh, "data"), bucket_cap_mb=BUCKET_MB)
    return model  # "budget" is an option of the compiler's, set in `_cell`


# ---- what is asked of the result
def _whole(value: Tensor) -> Tensor:
    """All of a tensor. Along two axes FSDP's slices lie inside of TP's, and are put together first."""
    if isinstance(value, DTensor) and value.device_mesh.ndim > 1:
        value = value.redistribute(placements=[Replicate(), *value.placements[1:]])
    return value.full_tensor() if isinstance(value, DTensor) else value


def _wrong_by(model: nn.Module, got: Tensor, loss: Tensor, gradients: dict[str, Tensor]) -> float:
    mean = got.clone()
    dist.all_reduce(mean)
    pairs = [(mean / dist.get_world_size(), loss)]
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, f"{name} has no gradient"
        pairs.append((_whole(parameter.grad), gradients[WRAPPED.sub("", name)]))
    return max(((made - exact).abs().max() / exact.abs().max()).item() for made, exact in pairs)


def _foreign(state: dict[str, Any], known: dict[str, Any]) -> str:
    return next((name for name in state if name not in known), "")


def _clipped(clip: Callable[..., Tensor], model: nn.Module, norm: float) -> str:
    try:
        total = clip(list(model.parameters()), 1e9)
        got = (total.full_tensor() if isinstance(total, DTensor) else total).item()
    except Exception as error:
        return first_line(error)
    return "" if abs(got - norm) < 1e-4 * norm else f"the norm is {got:.2f}, and one process's is {norm:.2f}"


def first_line(error: BaseException) -> str:
    """The type of an error and the first line of what it says, without addresses; of a backend's, what it raised."""
    lines = [line for line in str(error).strip().splitlines() if line] or ["no message"]
    line = lines[1] if lines[0].endswith("raised:") and len(lines) > 1 else f"{type(error).__name__}: {lines[0]}"
    return textwrap.shorten(re.sub(r" at 0x[0-9a-f]+", "", line), 180, placeholder=" …")
