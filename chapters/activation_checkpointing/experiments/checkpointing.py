"""The recording ``checkpointing``: strategies and budgets on a GPT, time and memory of each."""

import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from compile_lab.checkpointing.cost import Cost, Subject, measured, reference
from compile_lab.checkpointing.strategies import MATMULS_KEPT, NONE, Strategy, budgets, segments_of

from ...registry import Progress
from ...shared import subjects

LAYERS = 24
SIZES = {
    "cuda": {"dim": 1024, "heads": 16, "length": 1024, "batch": 16},
    "cpu": {"dim": 32, "heads": 2, "length": 16, "batch": 2},
}


BUDGET_S = 200
"""All strategies of one recording: one that would begin later is left out, and named."""
LIMIT = 0.7
"""The memory limit, as a share of what the step takes above its parameters with no strategy at all."""
STRATEGIES = (NONE, *segments_of(LAYERS), MATMULS_KEPT, *budgets((1.0, 0.5, 0.0, 0.25)))
"""Those that matter most come first, in case time runs out: each compiled one takes most of a minute to compile."""
COMPILED_STRATEGIES = (
    NONE,
    *budgets((0.1,)),
    Strategy("keep matmuls, compiled", every=1, keep=MATMULS_KEPT.keep, compiled=True),
    Strategy("every layer, compiled", every=1, compiled=True),
    *budgets((0.75,)),
)
"""Of the recording ``checkpointing_compiled``."""


def recorded(*results: Mapping[str, Any]) -> dict[str, Cost]:
    """The costs of recordings by the name of their strategy; of two of one name, the first."""
    costs = [Cost.from_json(each) for result in results for each in result["costs"]]
    return {cost.strategy.name: cost for cost in reversed(costs)}


def record(
    device: str, progress: Progress = iter, *, strategies: Iterable[Strategy] = STRATEGIES, budget_s: float = BUDGET_S
) -> dict[str, Any]:
    """Strategies on a GPT of 24 layers, of which none comes first, as plain JSON values: four minutes on a large GPU.

    Returns ``{"model": {"layers", "dim", "batch", "length", "what", "parameters_nbytes"}, "limit_nbytes", "costs":
    [Cost as a dict], "left_out": [names], "noise": gradient_error of a second step without a strategy}``.
    Raises NotCompiledError if compiled code did not run.
    """
    ends = time.monotonic() + budget_s
    subject, about = _subject(device)
    expected, noise = reference(subject)
    costs: list[Cost] = []
    left_out, limit = [], None
    for strategy in progress(list(strategies)):
        if time.monotonic() > ends:
            left_out.append(strategy.name)
            continue
        cost = measured(subject, strategy, expected, limit)
        costs.append(cost)
        if strategy == NONE and device == "cuda":
            limit = int(LIMIT * cost.peak_nbytes)
    return {
        "model": about,
        "limit_nbytes": limit,
        "costs": [asdict(cost) for cost in costs],
        "left_out": left_out,
        "noise": noise,
    }


def _subject(device: str) -> tuple[Subject, dict[str, Any]]:
    size = SIZES[device]
    model = subjects.deep_gpt(LAYERS, size["dim"], size["heads"], size["length"], device)
    parameters = sum(each.numel() * each.element_size() for each in model.parameters())
    what = "MiniGPT with 24 layers, " + ("bf16 autocast" if device == "cuda" else "float32, a try-out on a CPU")
    about = {"layers": LAYERS, **size, "what": what, "parameters_nbytes": parameters}
    return Subject(model, subjects.tokens(model, size["batch"]), device), about
