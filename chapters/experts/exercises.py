"""Exercises of chapter 16, mixture of experts."""

from collections.abc import Callable

import torch
from torch import Tensor

from compile_lab._torch.dynamo import dynamo_utils

from ..exercises.judging import exercise
from ..shared.counting import Counting

CHOSEN = ([3, 0, 0, 1], 4), ([0, 0, 1], 4), ([7, 7, 1, 5, 1], 8)
"""Of each row the expert, and how many experts there are."""


@exercise("16.3", takes=Callable)
def group_ends(answer: Callable[[Tensor, int], Tensor]) -> str | None:
    """ends(expert, experts): the row at which each expert's group ends, int32, in one graph."""
    for chosen, experts in CHOSEN:
        right = [sum(each <= expert for each in chosen) for expert in range(experts)]
        got = answer(torch.tensor(chosen), experts)
        if not isinstance(got, Tensor):
            return f"it returns {type(got).__name__}: a tensor is wanted."
        if got.tolist() != right:
            return f"for {chosen} of {experts} experts it says {got.tolist()}; expert e ends after rows of 0 to e."
        if got.dtype != torch.int32:
            return f"it returns {got.dtype}: `grouped_mm` takes int32."
    torch.compiler.reset()
    dynamo_utils.counters.clear()
    counting = Counting()
    chosen, experts = CHOSEN[0]
    torch.compile(answer, backend=counting)(torch.tensor(chosen), experts)
    if reasons := dynamo_utils.counters["graph_break"]:
        return f"the graph breaks: {next(iter(reasons)).splitlines()[0]}."
    return None if counting.graphs == 1 else f"it becomes {counting.graphs} graphs, and one is wanted."
