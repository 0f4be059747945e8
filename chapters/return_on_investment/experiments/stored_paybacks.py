"""What live pages compute with.

``python -m chapters.return_on_investment.experiments.stored_paybacks`` writes it from the
recordings. It is stored beside the simulator, as numbers. A test says if the recordings have moved on since.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path

from compile_lab.measure.timing import SAMPLES
from compile_lab.modes.cost import Comparison, Quartiles
from compile_lab.modes.regional import Regional, WayCost, recorded
from compile_lab.recordings import load
from compile_lab.simulator import payback
from compile_lab.simulator.payback import CompiledWay, Interval

from ...shared.compared_modes import comparisons
from ..restarts import restarts

PATH = Path(payback.__file__).with_name(payback.STORED)
MODELS = {
    "GPT-2 inference, batch 1": "GPT-2 124M, inference, 1 sequence",
    "MiniGPT inference": "MiniGPT, inference, 8 sequences",
}
"""Of the comparisons of modes."""
STARTED_AGAIN = "GPT-2 124M, training", "whole"
"""The model and way of the recording of restarts."""
FOUND = {"artifacts": "artifacts, empty folder", "warm": "the same folder"}
WAYS = {"default": "whole", "reduce-overhead": "whole, reduce-overhead", "max-autotune": "whole, max-autotune"}


def rows() -> Iterator[CompiledWay]:
    """What the recordings have of steps and starts, a row for each model and way; GPT-2's training comes first."""
    found = comparisons()
    regional = sorted(recorded(load("regional")), key=lambda one: one.name != STARTED_AGAIN[0])
    for one in regional:
        for way in ("whole", "region", "blocks"):
            if "GPT" in one.name and way in one.done and one.ways[way].payback:
                yield of_region(one, one.ways[way])
    for name, model in MODELS.items():
        for mode, way in WAYS.items():
            if mode in found[name].started("cold"):
                yield of_mode(found[name], model, mode, way)


def of_region(one: Regional, cost: WayCost) -> CompiledWay:
    """A way's row: its steps were timed in turn with eager's, and its cold start in the same run. What a start takes
    with full caches is known of the job that was started again alone."""
    paid = cost.payback
    assert paid is not None and cost.compile_s is not None  # rows that were timed in turn, and compiled
    saved, source = rounded(Interval(paid.saved_ms, paid.saved_low_ms, paid.saved_high_ms)), str(one.provenance)
    start = {"cold": rounded(Interval.of_runs(cost.compile_s, paid.compile_runs_s))}
    if (one.name, cost.way) == STARTED_AGAIN:
        again = restarts(load("restarts"))
        start |= {
            cache: rounded(Interval.once(seconds))
            for cache, name in FOUND.items()
            if (seconds := again.starts[name].seconds) is not None
        }
        source += f"; its later starts {again.provenance}"
    batch = re.findall(r"batch (\d+)", one.what)[0]
    model = f"{one.name}, {batch} sequences"
    return CompiledWay(model, cost.way, paid.eager_ms, saved, start, source)


def of_mode(one: Comparison, model: str, mode: str, way: str) -> CompiledWay:
    """A mode's row: its steps and eager's were timed round by round, and the two medians' intervals are subtracted."""
    cost, eager = one.costs[mode], one.eager
    times = {name: getattr(cost, name) for name in ("cold", "warm")}
    starts = {name: rounded(Interval.of_runs(time.seconds, time.runs_s)) for name, time in times.items()}
    assert cost.call is not None and eager.call is not None
    saved = step(eager.call).minus(step(cost.call))
    return CompiledWay(model, way, eager.call.median_ms, rounded(saved), starts, str(one.provenance))


def step(call: Quartiles) -> Interval:
    """A step's milliseconds, and the interval of their median."""
    return Interval.from_quartiles(call.median_ms, call.low_ms, call.high_ms, SAMPLES)


def rounded(one: Interval) -> Interval:
    """Six figures, as a file keeps them."""
    return Interval(*(float(f"{value:.6g}") for value in (one.value, one.low, one.high)))


def text(found: list[CompiledWay]) -> str:
    """As JSON, a row on each line, so that a change can be read."""
    return "[\n" + ",\n".join(json.dumps(row.to_json()) for row in found) + "\n]\n"


if __name__ == "__main__":
    PATH.write_text(text(list(rows())), "utf-8")
