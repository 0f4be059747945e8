"""Which order to write: for each way to spread a model, with activation checkpointing or without."""

from .grid import BLOCK, Case, Cell

SPREADS: dict[str, tuple[str, ...]] = {
    "one process": (),
    "DDP": ("DDP",),
    "FSDP2": ("FSDP2",),
    "TP": ("TP",),
    "SP": ("SP",),
    "TP and FSDP2": ("TP", "FSDP2"),
    "SP and FSDP2": ("SP", "FSDP2"),
    "TP and DDP": ("TP", "DDP"),
}
"""Ways to spread a model, by the steps that they take."""

LINES = {
    "TP": "parallelize_module(model, mesh['tensor'], plan)",
    "SP": "parallelize_module(model, mesh['tensor'], plan)  # with SequenceParallel",
    "AC": "model.blocks = nn.ModuleList(checkpoint_wrapper(b) for b in model.blocks)",
    BLOCK: "for block in model.blocks:\n    block.compile()",
    "FSDP2": "for part in (*model.blocks, model):\n    fully_shard(part, mesh=mesh['data'])",
    "DDP": "model = DistributedDataParallel(model, device_mesh=mesh)",
}
"""What a program writes for a step."""


def pattern_of(case: Case) -> str:
    """The way in which a case spreads its model."""
    steps = {step for step in case if step in ("TP", "SP", "DDP", "FSDP2")}
    return next(name for name, each in SPREADS.items() if set(each) == steps)


def recommended(spread: str, checkpointing: bool) -> Case:
    """The order to write: TP or SP, checkpointing, ``block.compile()``, FSDP2 or DDP.

    On torch 2.13, checkpointing stands after compile where TP or SP is used.
    Raises ValueError for TP and DDP, which no order makes right.
    """
    steps = SPREADS[spread]
    if steps == ("TP", "DDP"):
        raise ValueError("TP and DDP: DDP takes parameters out of the model that are DTensors; take FSDP2 in its place")
    inner = [step for step in steps if step in ("TP", "SP")]
    outer = [step for step in steps if step in ("DDP", "FSDP2")]
    middle = [] if not checkpointing else ["AC"]
    compiled = [BLOCK, *middle] if inner else [*middle, BLOCK]
    return (*inner, *compiled, *outer)


def neighbours(cells: dict[Case, Cell], spread: str, checkpointing: bool) -> list[Cell]:
    """The grid's other orders for the same: those that are not `recommended`, the worst first."""
    best = recommended(spread, checkpointing) if spread != "TP and DDP" else ()
    same = [
        cell
        for case, cell in cells.items()
        if pattern_of(case) == spread and ("AC" in case) == checkpointing and case != best
    ]
    return sorted(same, key=lambda cell: cell.severity, reverse=True)
