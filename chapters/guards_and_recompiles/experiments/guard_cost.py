"""What do guards cost at each call? A deep chain of small layers whose compiled code does nothing at all.

The backend returns its first input, so what is timed is what surrounds a graph: checking the guards, fetching the
parameters, calling. Leaving guards out, in several ways, shows which share is whose.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn

from compile_lab._torch.dynamo import compiled_anew
from compile_lab.capture import GuardTree, compilation
from compile_lab.doors import door
from compile_lab.dynamo.guards import guards_of
from compile_lab.measure.timing import samples_us, summary_us

LAYERS = (10, 20, 40)
FILTERS = {
    "all guards": None,
    "not on torch's own modules": "skip_guard_on_inbuilt_nn_modules_unsafe",
    "on input tensors only": "keep_tensor_guards_unsafe",
    "none": "skip_all_guards_unsafe",
}
"""Ways to choose which guards are made: the names of torch.compiler's own filters, for ``guard_filter_fn``."""
UNCHECKED = "all made, most unchecked"
"""All guards are made, and ``set_stance(skip_guard_eval_unsafe=True)`` leaves most of them unchecked."""


@door
def guard_cost(
    layers: Iterable[int] = LAYERS, samples: int = 25, progress: Callable[[list], Any] = iter
) -> list[dict[str, Any]]:
    """Time per call of a chain of ``layers`` Linear(2, 2), for each way to treat its guards, on this CPU.

    One row for each: ``{"layers", "parameters", "way", "guards", "median_us", "low_us", "high_us"}``: guards made, and
    microseconds a call, median and quartiles of ``samples``. A way that this torch does not offer is left out.
    ``progress`` wraps the list of steps. Takes ten seconds, most of it compiling. ValueError for fewer than 2 samples.
    """
    if samples < 2:
        raise ValueError(f"samples={samples}: quartiles need at least 2")
    ways = [way for way, name in FILTERS.items() if name is None or hasattr(torch.compiler, name)] + [UNCHECKED]
    rows = []
    for count, way in progress([(count, way) for count in layers for way in ways]):
        model = nn.Sequential(*[nn.Linear(2, 2) for _ in range(count)])
        guards, times = _measured(model, way, samples)
        row = {"layers": count, "parameters": 2 * count, "way": way, "guards": guards}
        rows.append({**row, **summary_us(times)})
    return rows


def _measured(model: nn.Module, way: str, samples: int) -> tuple[int, list[float]]:
    """How many guards were made, and the microseconds of a call, sample by sample."""
    chosen = FILTERS.get(way)
    options = {"guard_filter_fn": getattr(torch.compiler, chosen)} if chosen else None
    with compiled_anew():
        with torch.no_grad(), compilation() as log:
            fn = torch.compile(model, backend=lambda module, _: lambda *inputs: (inputs[0],), options=options)
            fn(torch.ones(1, 2))
        log.require_compiled()
        # Made here and not earlier: a stance holds from the moment it is made.
        with torch.no_grad(), torch.compiler.set_stance(skip_guard_eval_unsafe=way == UNCHECKED):
            x = torch.ones(1, 2)
            times = samples_us(lambda: fn(x), "cpu", samples)
    return sum(len(guards_of(tree)) for tree in log.of(GuardTree)), times
